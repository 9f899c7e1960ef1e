//! Plays the faults that `--faults` gives.

use std::fmt::Display;
use std::fs;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use zookeeper_recipes::testing::{Listening, Target, TestingServer};

use super::command::{Clients, Command, Scope, parse, words};
use crate::ending::Ending;
use crate::output::{Output, count};

/// A line of the standard input must have fewer bytes.
const LONGEST_LINE: u64 = 1024 * 1024;

/// Where the commands come from.
#[derive(Debug)]
pub enum Script {
    /// From a file, which was read and checked.
    File(Vec<Step>),
    /// From the standard input, as they come.
    Input(Scope),
}

/// A line with a command.
#[derive(Debug)]
pub struct Step {
    /// Its number, counted from 1.
    line: usize,
    /// Its words, with single spaces between them.
    said: String,
    command: Command,
}

impl Step {
    /// Parses a line; `None` if it has no command.
    fn read(line: usize, text: &[u8], scope: Scope) -> Result<Option<Step>, String> {
        let text = String::from_utf8_lossy(text);
        // Editors may put a byte order mark at the start.
        let text = text.trim_start_matches('\u{feff}');
        let said = words(text).collect::<Vec<_>>().join(" ");
        Ok(parse(text, scope)?.map(|command| Step { line, said, command }))
    }
}

impl Script {
    /// Reads a whole file; `-` is the standard input, which is read later.
    pub fn read(file: &str, scope: Scope) -> Result<Script, Ending> {
        if file == "-" {
            return Ok(Script::Input(scope));
        }
        let text = fs::read(file).map_err(|error| Ending::failed(format_args!("--faults {file}: {error}")))?;
        let lines = text.split(|byte| *byte == b'\n').zip(1..);
        let steps = lines.map(|(text, line)| {
            Step::read(line, text, scope)
                .map_err(|why| Ending::failed(format_args!("--faults {file} line {line}: {why}")))
        });
        Ok(Script::File(steps.filter_map(Result::transpose).collect::<Result<_, _>>()?))
    }
}

/// Carries out commands on the servers, and reports what was done.
pub struct Player<'a> {
    pub output: Output,
    pub server: &'a TestingServer,
    /// The addresses that the servers listen on, in the order of the command line.
    pub listening: &'a [Listening],
}

impl Player<'_> {
    /// Plays a script to its end.
    pub async fn play(&self, script: Script) -> Result<(), Ending> {
        match script {
            Script::File(steps) => {
                for step in steps {
                    self.step(step).await?;
                }
            }
            Script::Input(scope) => self.play_input(scope).await?,
        }
        Ok(())
    }

    async fn play_input(&self, scope: Scope) -> Result<(), Ending> {
        let failed = |error: &dyn Display| Ending::failed(format_args!("--faults -: {error}"));
        let mut input = BufReader::new(tokio::io::stdin());
        for line in 1.. {
            let mut text = Vec::new();
            let mut rest = (&mut input).take(LONGEST_LINE);
            rest.read_until(b'\n', &mut text).await.map_err(|error| failed(&error))?;
            if rest.limit() == 0 {
                return Err(failed(&format_args!("line {line} must have fewer than {LONGEST_LINE} bytes")));
            }
            if text.is_empty() {
                break;
            }
            match Step::read(line, &text, scope) {
                Ok(None) => {}
                Ok(Some(step)) => self.step(step).await?,
                Err(why) => {
                    self.say(format_args!("not played: line {line}: {why}"), json!({ "error": why, "line": line }))
                        .await?;
                }
            }
        }
        Ok(())
    }

    async fn step(&self, step: Step) -> Result<(), Ending> {
        let Step { line, said, command } = step;
        if let Command::Wait(time) = command {
            tokio::time::sleep(time).await;
        }
        let (result, facts) = match self.act(command) {
            Some(Done::Cut(connections)) => (
                format!(": {}", count(connections, "connection", "connections")),
                Some(("connections", json!(connections))),
            ),
            Some(Done::Expired(true)) => (String::new(), Some(("expired", json!(true)))),
            Some(Done::Expired(false)) => (": there is no such session".to_owned(), Some(("expired", json!(false)))),
            None => (String::new(), None),
        };
        let mut value = Map::from_iter([("fault".to_owned(), json!(said)), ("line".to_owned(), json!(line))]);
        value.extend(facts.map(|(key, fact)| (key.to_owned(), fact)));
        self.say(format_args!("fault: {said}{result}"), Value::Object(value)).await
    }

    async fn say(&self, text: impl Display, value: Value) -> Result<(), Ending> {
        match self.output.print(text, &value).await {
            // The reader wanted only the connect string: the faults continue.
            Err(Ending::OutputClosed) => Ok(()),
            printed => printed,
        }
    }

    /// Carries out a command, except for a wait.
    fn act(&self, command: Command) -> Option<Done> {
        let server = self.server;
        match command {
            Command::Wait(_) => {}
            Command::Cut(clients) => return Some(Done::Cut(server.disconnect(self.target(clients)))),
            Command::Refuse(clients) => server.refuse(self.target(clients)),
            Command::BlackHole(clients) => server.black_hole(self.target(clients)),
            Command::Delay(clients, by) => server.delay(self.target(clients), by),
            Command::LoseReply(clients, kind, loss) => server.lose_next_reply(self.target(clients), kind, loss),
            Command::Grant(timeouts) => server.grant_timeouts(timeouts),
            Command::Expire(session) => return Some(Done::Expired(server.expire_session_id(session))),
            Command::Stop => server.stop(),
            Command::Restart(data) => server.restart(data),
            Command::CutOff(number, serves_for) => server.cut_off(number, serves_for),
            Command::Depose(number, serves_for) => server.depose_leader(number, serves_for),
            Command::Heal => server.heal(),
        }
        None
    }

    fn target(&self, clients: Clients) -> Target {
        match clients {
            Clients::All => Target::ALL,
            Clients::Address(number) => Target::from(&self.listening[number]),
        }
    }
}

/// What a command reports, apart from having been carried out.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    /// How many connections were cut.
    Cut(usize),
    /// Whether there was such a session.
    Expired(bool),
}

#[cfg(test)]
mod tests;
