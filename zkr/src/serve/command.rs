//! The language of `--faults`: one command per line.

use std::ops::RangeInclusive;
use std::time::Duration;

use zookeeper_recipes::testing::{Data, Loss, Operation};

use crate::connection;
use crate::output::shown;

/// The command on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Waits.
    Wait(Duration),
    /// Cuts the connections of these clients once.
    Cut(Clients),
    /// Refuses their new connections.
    Refuse(Clients),
    /// Holds back all their messages.
    BlackHole(Clients),
    /// Delays each of their messages.
    Delay(Clients, Duration),
    /// Loses the reply of their next request of this kind, or of any.
    LoseReply(Clients, Option<Operation>, Loss),
    /// Grants these session timeouts from now on.
    Grant(RangeInclusive<Duration>),
    /// Ends the session with this id.
    Expire(i64),
    /// Stops all servers.
    Stop,
    /// Starts them again.
    Restart(Data),
    /// Cuts a server off from the others. It still serves for a time.
    CutOff(usize, Duration),
    /// Replaces the leader. The old one still serves for a time.
    Depose(usize, Duration),
    /// Ends all lasting faults.
    Heal,
}

/// The clients that a command concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// All of them.
    All,
    /// The clients of the `--listen` with this number, counted from 0.
    Address(usize),
}

/// The targets that a command can name.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// How often `--listen` was given.
    pub addresses: usize,
    /// How many servers there are.
    pub servers: usize,
}

/// The commands, each with its arguments and what it does.
const COMMANDS: [(&str, &str, &str); 14] = [
    ("wait", "TIME", "wait, then continue"),
    ("cut", "TARGET", "cut the connections, once"),
    ("refuse", "TARGET", "refuse new connections, until heal"),
    ("black-hole", "TARGET", "hold back all messages, in both directions, until heal"),
    ("delay", "TARGET TIME", "delay every message by TIME, in both directions, until heal"),
    ("lose-reply", "TARGET KIND HOW", "lose the reply to the next request of this kind, once"),
    ("grant", "MIN MAX", "from now on, grant session timeouts between MIN and MAX; heal does not end this"),
    ("expire", "SESSION", "end the session with this id, such as 0x1a or 26"),
    ("stop", "", "stop all servers"),
    ("restart", "", "stop all servers if they run, and start them again"),
    ("restart-empty", "", "the same, without nodes and sessions; clients that have seen later changes are refused"),
    ("cut-off", "SERVER TIME", "cut a server off from the others; it still serves for TIME; until heal"),
    (
        "depose",
        "SERVER TIME",
        "cut the leader SERVER off, and elect another; the old one still serves for TIME; until heal",
    ),
    ("heal", "", "end all lasting faults, and discard pending losses; stopped servers stay stopped"),
];

/// The kinds of request whose reply can be lost.
const KINDS: [(&str, Option<Operation>); 15] = [
    ("any", None),
    ("create", Some(Operation::Create)),
    ("delete", Some(Operation::Delete)),
    ("exists", Some(Operation::Exists)),
    ("get", Some(Operation::GetData)),
    ("get-many", Some(Operation::GetMany)),
    ("set", Some(Operation::SetData)),
    ("list", Some(Operation::List)),
    ("get-acl", Some(Operation::GetAcl)),
    ("set-acl", Some(Operation::SetAcl)),
    ("multi", Some(Operation::Multi)),
    ("sync", Some(Operation::Sync)),
    ("add-watch", Some(Operation::AddWatch)),
    ("remove-watch", Some(Operation::RemoveWatch)),
    ("close", Some(Operation::Close)),
];

/// How a reply can be lost, and what that means.
const LOSSES: [(&str, Loss, &str); 4] = [
    ("applied", Loss::Applied, "the request is carried out, and the connection is closed without a reply"),
    ("not-applied", Loss::NotApplied, "the request is not carried out, and the connection is closed"),
    ("truncated", Loss::Truncated, "it is carried out; half of the reply arrives before the connection is closed"),
    (
        "malformed",
        Loss::Malformed,
        "as applied, but a reply arrives that cannot be decoded, unless it has no body, as for delete",
    ),
];

/// Returns the help on the language, which is printed below the options.
pub fn help() -> String {
    let synopsis = |name: &str, arguments: &str| format!("{name} {arguments}").trim_end().to_owned();
    let rows = COMMANDS.map(|(name, arguments, what)| (synopsis(name, arguments), what));
    // The description of a long command is on the next line.
    let line = |(left, what): &(String, &str)| match left.len() {
        0..=22 => format!("  {left:<22}  {what}\n"),
        _ => format!("  {left}\n  {:22}  {what}\n", ""),
    };
    let commands: String = rows.iter().map(line).collect();
    let kinds = KINDS.map(|(name, _)| name).join(", ");
    let losses: String = LOSSES.map(|(name, _, what)| format!("  {name:<22}  {what}\n")).concat();
    format!(
        "Commands of --faults, one per line; # begins a comment:\n{commands}\n\
         TARGET is all, or a number: 1 for the clients of the first --listen, 2 for those of the second.\n\
         SERVER is a number, counted from 0. TIME, MIN and MAX are written like 500ms or 2s.\n\
         KIND is one of {kinds}.\n\
         HOW is one of:\n{losses}\n\
         Each command prints a line when it has been carried out; it may take effect later. A FILE is checked before \
         anything is served. For a bad line of the standard input, a line is printed that says why it is not played. \
         The servers keep running after the last command."
    )
}

/// Parses a line; `None` if it has no command.
pub fn parse(line: &str, scope: Scope) -> Result<Option<Command>, String> {
    let words: Vec<&str> = words(line).collect();
    let Some((&name, arguments)) = words.split_first() else { return Ok(None) };
    let Some((_, usage, _)) = COMMANDS.iter().find(|(known, ..)| *known == name) else {
        let names = COMMANDS.map(|(name, ..)| name).join(", ");
        return Err(format!("there is no command \"{}\"; it must be one of {names}", quoted(name)));
    };
    match command(name, arguments, scope) {
        Some(command) => command.map(Some),
        None => Err(format!("it must be: {}", format!("{name} {usage}").trim_end())),
    }
}

/// Returns the words of a line without its comment.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('#').next().unwrap_or_default().split_whitespace()
}

/// Parses a command; `None` if the number of arguments is wrong.
fn command(name: &str, arguments: &[&str], scope: Scope) -> Option<Result<Command, String>> {
    Some(match (name, arguments) {
        ("wait", [after]) => time(after).map(Command::Wait),
        ("cut", [target]) => scope.clients(target).map(Command::Cut),
        ("refuse", [target]) => scope.clients(target).map(Command::Refuse),
        ("black-hole", [target]) => scope.clients(target).map(Command::BlackHole),
        ("delay", [target, by]) => scope.clients(target).and_then(|clients| Ok(Command::Delay(clients, time(by)?))),
        ("lose-reply", [target, of, is]) => {
            scope.clients(target).and_then(|clients| Ok(Command::LoseReply(clients, kind(of)?, loss(is)?)))
        }
        ("grant", [min, max]) => range(min, max).map(Command::Grant),
        ("expire", [id]) => session(id).map(Command::Expire),
        ("stop", []) => Ok(Command::Stop),
        ("restart", []) => Ok(Command::Restart(Data::Kept)),
        ("restart-empty", []) => Ok(Command::Restart(Data::Lost)),
        ("cut-off", [server, still]) => scope.server(server).and_then(|it| Ok(Command::CutOff(it, time(still)?))),
        ("depose", [server, still]) => scope.server(server).and_then(|it| Ok(Command::Depose(it, time(still)?))),
        ("heal", []) => Ok(Command::Heal),
        _ => return None,
    })
}

impl Scope {
    fn clients(self, word: &str) -> Result<Clients, String> {
        if word == "all" {
            return Ok(Clients::All);
        }
        let number = word.parse().ok().filter(|number| (1..=self.addresses).contains(number));
        let allowed = match self.addresses {
            1 => "all, or 1 for the --listen".to_owned(),
            addresses => format!("all, or the number of a --listen, 1 to {addresses}"),
        };
        number.map(|number| Clients::Address(number - 1)).ok_or_else(|| no("TARGET", word, &allowed))
    }

    fn server(self, word: &str) -> Result<usize, String> {
        if self.servers == 1 {
            return Err("there is only one server; this needs --servers 2 or more".to_owned());
        }
        let number = word.parse().ok().filter(|number| *number < self.servers);
        let allowed = format!("the number of a server, 0 to {}", self.servers - 1);
        number.ok_or_else(|| no("SERVER", word, &allowed))
    }
}

/// Returns the beginning of a word, for an error.
fn quoted(word: &str) -> String {
    let mut chars = word.chars();
    let beginning: String = chars.by_ref().take(60).collect();
    format!("{}{}", shown(&beginning), if chars.next().is_some() { "…" } else { "" })
}

/// Returns the error for a word that is not allowed in its place.
fn no(what: &str, word: &str, allowed: &str) -> String {
    format!("\"{}\" is not a {what}; it must be {allowed}", quoted(word))
}

fn kind(word: &str) -> Result<Option<Operation>, String> {
    let known = KINDS.iter().find(|(name, _)| *name == word);
    let allowed = format!("one of {}", KINDS.map(|(name, _)| name).join(", "));
    known.map(|(_, kind)| *kind).ok_or_else(|| no("KIND", word, &allowed))
}

fn loss(word: &str) -> Result<Loss, String> {
    let known = LOSSES.iter().find(|(name, ..)| *name == word);
    let allowed = format!("one of {}", LOSSES.map(|(name, ..)| name).join(", "));
    known.map(|(_, loss, _)| *loss).ok_or_else(|| no("HOW", word, &allowed))
}

fn time(word: &str) -> Result<Duration, String> {
    connection::time(word).map_err(|why| format!("\"{}\": {why}", quoted(word)))
}

/// Parses the session timeouts to grant. Servers count whole milliseconds, and the protocol has 31 bits for them.
fn range(min: &str, max: &str) -> Result<RangeInclusive<Duration>, String> {
    let allowed = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    let range = time(min)?..=time(max)?;
    if !allowed.contains(range.start()) || !allowed.contains(range.end()) {
        return Err("MIN and MAX must be at least 1ms and at most 24h".to_owned());
    }
    if range.is_empty() { Err("MIN must not be more than MAX".to_owned()) } else { Ok(range) }
}

fn session(word: &str) -> Result<i64, String> {
    let id = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => word.parse().ok(),
    };
    id.ok_or_else(|| no("SESSION", word, "a number, such as 0x1a or 26"))
}

#[cfg(test)]
mod tests;
