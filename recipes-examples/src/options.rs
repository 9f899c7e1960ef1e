//! The options of the examples, their validation, and `--help`.

use std::process::exit;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, Parser};
use zookeeper_recipes::Client;

/// The session timeout in seconds; short in memory, so that a crashed session ends soon.
const IN_MEMORY: u64 = 3;
const ON_A_SERVER: u64 = 8;
/// What the ensemble in memory grants, in seconds.
const GRANTED_IN_MEMORY: std::ops::RangeInclusive<u64> = 1..=10;

/// The options that say where an example plays.
#[derive(Args, Debug, Clone, Default)]
pub struct Ensemble {
    /// A real ensemble, as host:port or host:port,host:port/chroot [default: an ensemble in memory]
    #[arg(long, env = "ZOOKEEPER_CONNECT", value_name = "HOSTS", value_parser = connect_string)]
    pub connect: Option<String>,
    /// Session timeout: how long a crashed participant keeps what it holds [default: 8, or 3 in memory]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub session_timeout: Option<u64>,
}

impl Ensemble {
    pub(crate) fn session_timeout(&self) -> Duration {
        let usual = if self.connect.is_some() { ON_A_SERVER } else { IN_MEMORY };
        Duration::from_secs(self.session_timeout.unwrap_or(usual))
    }

    /// Returns the chroot of the connect string, or an empty text.
    fn chroot(&self) -> &str {
        let hosts = self.connect.as_deref().unwrap_or_default();
        let (_, after_scheme) = hosts.rsplit_once("://").unwrap_or(("", hosts));
        let chroot = after_scheme.find('/').map_or("", |at| &after_scheme[at..]);
        chroot.trim_end_matches('/')
    }
}

/// The znodes that an example uses with the given options.
#[derive(Debug, Clone, Copy)]
pub struct Znodes<'a> {
    /// The path of the recipe.
    pub path: &'a str,
    /// The option by which several processes share the path; `None` if the process plays a scenario of its own.
    pub shared_by: Option<&'static str>,
    /// The suffix that follows the path in the name of each znode, and what the znode is.
    pub uses: &'static [(&'static str, &'static str)],
}

impl Znodes<'_> {
    /// Returns the section of `--help` with the paths as they are on the servers.
    fn help(&self, ensemble: &Ensemble) -> String {
        let own = ensemble.connect.is_some() && self.shared_by.is_none();
        let base = format!("{}{}{}", ensemble.chroot(), self.path, if own { "-PID" } else { "" });
        let width = self.uses.iter().map(|(suffix, _)| base.len() + suffix.len()).max().unwrap_or_default();
        let lines = self.uses.iter().map(|(suffix, what)| format!("  {:width$}  {what}\n", format!("{base}{suffix}")));
        let place = ensemble.connect.as_deref().unwrap_or("an ensemble in memory");
        let pid = if own { "PID is the process id, so each run has paths of its own.\n" } else { "" };
        format!("Znodes with these options, on {place}:\n{}{pid}", lines.collect::<String>())
    }
}

/// The options of an example.
pub trait Example: Parser {
    /// Returns where the example plays.
    fn ensemble(&self) -> &Ensemble;

    /// Returns the znodes that the example uses.
    fn znodes(&self) -> Znodes<'_>;
}

/// Parses the path of a znode below the root.
///
/// # Errors
/// A text that says which values are allowed.
pub fn path(value: &str) -> Result<String, String> {
    if !value.starts_with('/') || value == "/" {
        return Err("a path starts with '/' and names a znode below the root, as in \"/examples/lock\"".into());
    }
    // A namespace follows the rules of paths.
    match Client::builder("localhost").namespace(value).validate() {
        Ok(()) => Ok(value.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn connect_string(value: &str) -> Result<String, String> {
    Client::builder(value).validate().map_err(|error| error.to_string())?;
    Ok(value.to_owned())
}

/// Parses a whole number from `least` to `most`.
///
/// # Errors
/// A text that says which values are allowed.
pub fn number(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("a whole number from {least} to {most} is allowed"))
}

fn seconds(value: &str) -> Result<u64, String> {
    number(value, 1, 86_400)
}

/// Parses the name of a participant, which must not be empty.
pub fn name() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// Returns the options of this process. Ends the process after `--help`, and with status 2 if an option is bad.
pub(crate) fn parse<O: Example>() -> O {
    let options = match O::try_parse() {
        Ok(options) => options,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => help::<O>(),
        Err(error) => error.exit(),
    };
    if let Err(why) = check(&options) {
        O::command().error(ErrorKind::ValueValidation, why).exit();
    }
    options
}

/// Checks combinations of options, which no option shows alone.
fn check<O: Example>(options: &O) -> Result<(), String> {
    let ensemble = options.ensemble();
    if ensemble.connect.is_some() {
        return Ok(());
    }
    if let Some(option) = options.znodes().shared_by {
        return Err(format!(
            "{option} needs a real ensemble, which several processes can share: start one, for example with\n\
             `docker run -d --rm --name zk -p 2181:2181 zookeeper:3.9`, and add `--connect localhost:2181`\n\
             (or set ZOOKEEPER_CONNECT)"
        ));
    }
    match ensemble.session_timeout {
        Some(seconds) if !GRANTED_IN_MEMORY.contains(&seconds) => Err(format!(
            "invalid value '{seconds}' for '--session-timeout <SECONDS>': the ensemble in memory grants {} to {} \
             seconds",
            GRANTED_IN_MEMORY.start(),
            GRANTED_IN_MEMORY.end()
        )),
        _ => Ok(()),
    }
}

/// Prints the help, with the znodes for the other options of this process, and ends.
fn help<O: Example>() -> ! {
    // As an ordinary option, `--help` does not keep the rest from being parsed.
    let flag = Arg::new("help").short('h').long("help").action(ArgAction::SetTrue);
    let matches = O::command().disable_help_flag(true).ignore_errors(true).arg(flag).try_get_matches();
    let options = matches.and_then(|matches| O::from_arg_matches(&matches)).ok();
    let znodes = options.map(|options| options.znodes().help(options.ensemble())).unwrap_or_default();
    // The standard output may be closed.
    let _ = O::command().after_help(znodes).print_help();
    exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(hosts: &str) -> Ensemble {
        Ensemble { connect: Some(hosts.to_owned()), session_timeout: None }
    }

    #[test]
    fn the_chroot_is_what_follows_the_hosts() {
        let hosts = ["a:1", "a:1,b:2/app", "a/app/x/", "tcp://a:1,tcp+tls://b:2", "tcp://a:1/app", "[::1]:1/app"];
        let chroots = ["", "/app", "/app/x", "", "/app", "/app"];
        assert_eq!(hosts.map(|hosts| on(hosts).chroot().to_owned()), chroots);
    }

    #[test]
    fn help_shows_paths_as_they_are_used() {
        let znodes = Znodes { path: "/lock", shared_by: None, uses: &[("", "the lock"), ("-ledger", "the ledger")] };
        let help = znodes.help(&on("a:1/app"));
        assert!(help.contains("  /app/lock-PID         the lock\n  /app/lock-PID-ledger  the ledger\n"), "{help}");
        let help = Znodes { shared_by: Some("--id"), ..znodes }.help(&on("a:1/app"));
        assert!(help.contains("  /app/lock         the lock\n") && !help.contains("PID"), "{help}");
        assert!(znodes.help(&Ensemble::default()).contains("in memory:\n  /lock         the lock\n"));
    }

    #[test]
    fn a_number_is_checked() {
        assert_eq!((number("1", 1, 5), number("5", 1, 5)), (Ok(1), Ok(5)));
        for bad in ["0", "6", "-1", "x", "", "99999999999999999999"] {
            assert_eq!(number(bad, 1, 5), Err("a whole number from 1 to 5 is allowed".to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn a_path_is_checked() {
        assert_eq!(path("/a/b"), Ok("/a/b".to_owned()));
        for bad in ["", "/", "a", "/a/", "/a//b", "/a/../b"] {
            assert!(path(bad).is_err(), "{bad:?}");
        }
    }
}
