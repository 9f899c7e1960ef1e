//! The options that every command has: which servers to use, and how to connect.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use serde::{Deserialize, Serialize};
use zookeeper_recipes::{Client, ClientBuilder, ErrorKind, ErrorPolicy, Sasl, Tls};

use crate::commands::servers;
use crate::ending::{Ending, Status};
use crate::output::note;

/// How long to try to reach a server by default, and the same for commands that only read.
const CONNECT: Duration = Duration::from_secs(15);
pub const LOOK: Duration = Duration::from_secs(5);

/// Which servers, and how to connect to them.
#[derive(Args, Debug, Clone, Serialize, Deserialize)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// The servers, and optionally a path to use as the root: host:2181,host:2181/root, or srv://name/root
    #[arg(long, env = "ZKR_CONNECT", value_name = "HOSTS", default_value = "localhost:2181", global = true)]
    connect: String,
    /// A path to prepend to all paths
    #[arg(
        long,
        env = "ZKR_NAMESPACE",
        value_name = "PATH",
        default_value = "",
        hide_default_value = true,
        global = true
    )]
    namespace: String,
    /// How long the servers keep the session without hearing from this process
    #[arg(
        long, env = "ZKR_SESSION_TIMEOUT", value_name = "TIME", default_value = "10s",
        value_parser = time, global = true
    )]
    session_timeout: Duration,
    /// How long to try to reach a server [default: 15s; 5s for commands that only read]
    #[arg(long, env = "ZKR_CONNECTION_TIMEOUT", value_name = "TIME", value_parser = time, global = true)]
    connection_timeout: Option<Duration>,
    /// The tickTime of the servers, if it is not ZooKeeper's default
    #[arg(
        long, env = "ZKR_TICK_TIME", value_name = "TIME", default_value = "2s", value_parser = time,
        global = true
    )]
    tick_time: Duration,
    /// The minSessionTimeout of the servers: a larger one lets locks survive longer interruptions [default: two ticks]
    #[arg(long, env = "ZKR_MIN_SESSION_TIMEOUT", value_name = "TIME", value_parser = time, global = true)]
    min_session_timeout: Option<Duration>,
    /// The jute.maxbuffer of the servers, if it is not ZooKeeper's default: the largest request, in bytes
    #[arg(long, env = "ZKR_MAX_BUFFER", value_name = "BYTES", global = true)]
    max_buffer: Option<usize>,
    /// Credentials, as for addauth: digest:user:password. Several are separated by spaces
    #[arg(
        long, env = "ZKR_AUTH", value_name = "SCHEME:AUTH", value_delimiter = ' ', hide_env_values = true,
        value_parser = scheme_and_auth, global = true
    )]
    auth: Vec<(String, String)>,
    /// Authenticate with SASL (DIGEST-MD5)
    #[arg(
        long, env = "ZKR_SASL", value_name = "USER:PASSWORD", hide_env_values = true,
        value_parser = user_and_password, global = true
    )]
    sasl: Option<(String, String)>,
    /// Use TLS, and trust the certificate authorities in this file (PEM)
    #[arg(long, env = "ZKR_TLS_CA", value_name = "FILE", global = true)]
    tls_ca: Option<PathBuf>,
    /// Present the certificate in this file (PEM)
    #[arg(long, env = "ZKR_TLS_CERT", value_name = "FILE", requires = "tls_key", requires = "tls_ca", global = true)]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, env = "ZKR_TLS_KEY", value_name = "FILE", requires = "tls_cert", global = true)]
    tls_key: Option<PathBuf>,
}

impl Connection {
    /// Returns the first of these options that is on the command line.
    pub fn first_given(matches: &ArgMatches) -> Option<String> {
        let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
        let is_given = |option: &&Arg| matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
        let options = Connection::augment_args(Command::new("zkr"));
        options.get_arguments().find(is_given).and_then(Arg::get_long).map(str::to_owned)
    }

    /// Opens a session.
    pub async fn open(&self) -> Result<Client, Ending> {
        match self.builder()?.connect().await {
            Err(error) if error.kind() == ErrorKind::ConnectionLoss => {
                let read_only = servers::read_only(self).await;
                Err(Ending::because(Status::Unreachable, format_args!("{error}{read_only}")))
            }
            connected => connected.map_err(|error| Ending::of(&error)),
        }
    }

    /// Shortens the connection timeout, unless the user has set it.
    pub fn give_up_soon(&mut self) {
        self.connection_timeout.get_or_insert(LOOK);
    }

    /// Returns the servers, as they were given.
    pub fn servers(&self) -> &str {
        &self.connect
    }

    /// Returns whether to connect over TLS to servers without a prefix.
    pub fn encrypts(&self) -> bool {
        self.tls_ca.is_some()
    }

    /// Returns the servers and the namespace, as environment variables.
    pub fn place(&self) -> [(&'static str, &str); 2] {
        [("ZKR_CONNECT", &self.connect), ("ZKR_NAMESPACE", &self.namespace)]
    }

    /// Returns the session timeout to request.
    pub fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    /// Returns the tickTime of the servers, as it was given.
    pub fn tick_time(&self) -> Duration {
        self.tick_time
    }

    /// Returns the minSessionTimeout of the servers, if it was given.
    pub fn min_session_timeout(&self) -> Option<Duration> {
        self.min_session_timeout
    }

    /// Returns the shortest session timeout that the servers may grant later, if they have granted this one. Assumes,
    /// as the library does, that a tick is at most a quarter of it.
    pub fn least_timeout(&self, granted: Duration) -> Duration {
        let two_ticks = self.tick_time.min(granted / 4) * 2;
        self.min_session_timeout.map_or(two_ticks, |least| least.min(granted))
    }

    /// Checks the options without connecting, for commands that hold something. Prints a note if the session timeout is
    /// short, which shortens the lease.
    pub fn validate(&self) -> Result<(), Ending> {
        self.builder().map(drop)?;
        if let Some(why) = self.short_session() {
            note(why);
        }
        Ok(())
    }

    fn short_session(&self) -> Option<String> {
        let [timeout, tick] = [self.session_timeout, self.tick_time];
        let [shown, shown_tick, least] = [timeout, tick, tick * 4].map(humantime::format_duration);
        let lasts = humantime::format_duration(self.least_timeout(timeout));
        (timeout < tick * 4).then(|| {
            format!(
                "--session-timeout {shown} is below four ticks of {shown_tick}: an outage of {lasts} may \
                 end what is held; use {least} or more, or set --tick-time if the servers have a shorter tickTime"
            )
        })
    }

    /// Returns the client that these options describe, checked.
    fn builder(&self) -> Result<ClientBuilder, Ending> {
        let mut builder = Client::builder(&self.connect)
            .namespace(&self.namespace)
            .session_timeout(self.session_timeout)
            .connection_timeout(self.connection_timeout.unwrap_or(CONNECT))
            .tick_time(self.tick_time)
            // A short loss of the connection ends nothing; the end of the lease does.
            .error_policy(ErrorPolicy::Session);
        if let Some(timeout) = self.min_session_timeout {
            builder = builder.min_session_timeout(timeout);
        }
        if let Some(bytes) = self.max_buffer {
            builder = builder.max_request_bytes(bytes);
        }
        for (scheme, auth) in &self.auth {
            builder = builder.auth(scheme, auth.as_bytes());
        }
        if let Some((user, password)) = &self.sasl {
            let sasl = Sasl::digest_md5(user, password).map_err(|error| Ending::of(&error))?;
            builder = builder.sasl(sasl);
        }
        if let Some(tls) = self.tls()? {
            builder = builder.tls(tls);
        }
        builder.validate().map_err(|error| Ending::of(&error))?;
        Ok(builder)
    }

    fn tls(&self) -> Result<Option<Tls>, Ending> {
        let Some(authorities) = &self.tls_ca else { return Ok(None) };
        let mut tls = Tls::new().ca_pem(&read(authorities)?).map_err(|error| in_file(authorities, &error))?;
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let identity = tls.identity_pem(&read(certificate)?, &read(key)?);
            tls = identity.map_err(|error| in_file(certificate, &error))?;
        }
        Ok(Some(tls))
    }
}

fn read(file: &Path) -> Result<String, Ending> {
    std::fs::read_to_string(file).map_err(|error| in_file(file, &error))
}

fn in_file(file: &Path, error: &dyn std::fmt::Display) -> Ending {
    Ending::failed(format_args!("{}: {error}", file.display()))
}

fn scheme_and_auth(value: &str) -> Result<(String, String), String> {
    let parts = value.split_once(':').filter(|(scheme, _)| !scheme.is_empty());
    let (scheme, auth) = parts.ok_or("it must be SCHEME:AUTH, such as digest:user:password")?;
    Ok((scheme.to_owned(), auth.to_owned()))
}

fn user_and_password(value: &str) -> Result<(String, String), String> {
    let (user, password) = value.split_once(':').ok_or("it must be USER:PASSWORD")?;
    Ok((user.to_owned(), password.to_owned()))
}

/// Parses a time.
pub fn time(value: &str) -> Result<Duration, String> {
    humantime::parse_duration(value).map_err(|error| match error {
        humantime::DurationError::NumberOverflow => "it is longer than can be counted".to_owned(),
        _ => "it must be a time with its unit, such as 500ms, 30s or 2m".to_owned(),
    })
}

/// Parses the path of a node below the root.
pub fn path(value: &str) -> Result<String, String> {
    let good = value.len() > 1
        && value.strip_prefix('/').is_some_and(|path| {
            path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control))
        });
    if good {
        Ok(value.to_owned())
    } else {
        Err("it must be /name or /name/name: no empty part, no . or .., no / at the end".to_owned())
    }
}

/// Parses the path of a node, or of the root.
pub fn path_or_root(value: &str) -> Result<String, String> {
    if value == "/" { Ok(value.to_owned()) } else { path(value) }
}

/// Parses the name of a node.
pub fn element(value: &str) -> Result<String, String> {
    match path(&format!("/{value}")) {
        Ok(_) if !value.contains('/') => Ok(value.to_owned()),
        _ => Err("it must be the name of a node: not empty, without /, and not . or ..".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[test]
    fn a_session_below_four_ticks_is_told_what_that_costs() {
        let why = |options: &[&str]| {
            let all = [&["zkr", "latch", "ls", "/l"], options].concat();
            crate::options::Options::parse_from(all).connection.short_session()
        };
        assert_eq!(why(&["--session-timeout", "8s", "--tick-time", "2s"]), None);
        let told = why(&["--session-timeout", "6s", "--tick-time", "2s"]).expect("it is short");
        let start = "--session-timeout 6s is below four ticks of 2s: an outage of 3s may end what is held; use 8s";
        assert!(told.starts_with(start), "{told}");
    }
}
