//! The options of a command that is registered as an instance of a service.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use zookeeper_recipes::service_discovery::{ServiceInstance, UriSpec};

use super::health::{Health, Place};
use crate::commands::services::Base;
use crate::connection::{element, time};
use crate::ending::Ending;

/// What is registered, and what is run.
#[derive(Args, Debug)]
pub struct RegisterOptions {
    /// The name of the service
    #[arg(value_parser = element)]
    name: String,
    #[command(flatten)]
    pub base: Base,
    /// The id of the instance [default: a random one]
    #[arg(long, value_name = "ID", value_parser = element)]
    id: Option<String>,
    /// The host name or IP address under which others reach COMMAND
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// The port under which others reach COMMAND; an address, a port or a TLS port is required
    #[arg(
        long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..),
        required_unless_present_any = ["address", "ssl_port"]
    )]
    port: Option<u16>,
    /// The port for TLS
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    ssl_port: Option<u16>,
    /// What else others need to know, as JSON
    #[arg(long, value_name = "JSON", value_parser = json)]
    payload: Option<Value>,
    /// The Java class of the payload: the field @class of an object; written before any other value, as Jackson does
    #[arg(long, value_name = "CLASS", requires = "payload")]
    payload_class: Option<String>,
    /// How to make the URI of the instance, such as {scheme}://{address}:{port}
    #[arg(long, value_name = "SPEC")]
    uri_spec: Option<UriSpec>,
    /// Register as soon as this port accepts a TCP connection [default host: localhost]. It is not checked afterwards
    #[arg(long, value_name = "[HOST:]PORT", conflicts_with = "health_command")]
    health_port: Option<Place>,
    /// Register as soon as this shell command ends with status 0. What it prints is dropped, except for errors. It is
    /// not run afterwards
    #[arg(long, value_name = "CMD")]
    health_command: Option<String>,
    /// How long that may take; then COMMAND is ended, and the status is 124
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub health_timeout: Duration,
    /// How long callers have to notice that the instance is disabled before COMMAND gets the signal; 0s does not
    /// disable it
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub drain: Duration,
    /// If another session has the id, wait for its end; otherwise COMMAND is ended, and the status is 125
    #[arg(long)]
    pub wait: bool,
    /// How long COMMAND may take to end after SIGTERM, if it is to end because it cannot be registered
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub grace: Duration,
    /// The command to run, with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl RegisterOptions {
    /// Returns the instance to register, checked.
    pub fn instance(&self) -> Result<ServiceInstance<Value>, Ending> {
        let mut builder = ServiceInstance::builder(&self.name);
        if let Some(id) = &self.id {
            builder = builder.id(id);
        }
        if let Some(address) = &self.address {
            builder = builder.address(address);
        }
        if let Some(port) = self.port {
            builder = builder.port(port);
        }
        if let Some(port) = self.ssl_port {
            builder = builder.ssl_port(port);
        }
        if let Some(payload) = &self.payload {
            builder = builder.payload(payload.clone());
        }
        if let Some(class) = &self.payload_class {
            builder = builder.payload_class(class);
        }
        if let Some(spec) = &self.uri_spec {
            builder = builder.uri_spec(spec.clone());
        }
        builder.build().map_err(Ending::failed)
    }

    /// Returns when the command can be registered.
    pub fn health(&self) -> Health {
        match (&self.health_port, &self.health_command) {
            (Some(place), _) => Health::Port(place.clone()),
            (None, Some(command)) => Health::Command(command.clone()),
            (None, None) => Health::AtOnce,
        }
    }
}

fn json(value: &str) -> Result<Value, String> {
    serde_json::from_str(value).map_err(|error| format!("it must be JSON, such as {{\"zone\": \"a\"}}: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: RegisterOptions,
    }

    fn parsed(options: &[&str]) -> Result<ServiceInstance<Value>, String> {
        let line = Line::try_parse_from([&["zkr", "web"], options, &["--", "true"]].concat());
        let options = line.map_err(|error| error.to_string())?.options;
        options.instance().map_err(|ending| format!("{ending:?}"))
    }

    #[test]
    fn an_instance_has_what_is_given() {
        let all = ["--id", "7", "--address", "10.0.0.1", "--port", "80", "--ssl-port", "443", "--payload"];
        let more = [r#"{"zone":"a"}"#, "--payload-class", "com.acme.Zone", "--uri-spec", "{scheme}://{address}:{port}"];
        let instance = parsed(&[&all[..], &more].concat()).expect("good options");
        assert_eq!((instance.name(), instance.id(), instance.address()), ("web", "7", Some("10.0.0.1")));
        assert_eq!((instance.port(), instance.ssl_port()), (Some(80), Some(443)));
        assert_eq!(instance.payload(), Some(&serde_json::json!({ "zone": "a" })));
        assert_eq!(instance.payload_class(), Some("com.acme.Zone"));
        assert_eq!(instance.uri().as_deref(), Some("https://10.0.0.1:80"));
        let random = parsed(&["--ssl-port", "443"]).expect("good options");
        assert!(random.id().len() == 36 && random.port().is_none(), "{random:?}");
    }

    #[test]
    fn bad_values_are_named() {
        for (options, why) in [
            (&[][..], "--port <PORT>"),
            (&["--port", "0"], "0 is not in 1..=65535"),
            (&["--port", "80", "--ssl-port", "65536"], "65536 is not in 1..=65535"),
            (&["--port", "80", "--id", "a/b"], "without /"),
            (&["--port", "80", "--id", ""], "not empty"),
            (&["--address", ""], "an empty address"),
            (&["--port", "80", "--payload", "{zone"], "it must be JSON"),
            (&["--port", "80", "--payload-class", "C"], "--payload <JSON>"),
            (&["--port", "80", "--uri-spec", "{port"], "a { without a } after it"),
            (&["--port", "80", "--health-port", "0"], "1 to 65535"),
            (&["--port", "80", "--health-port", "1", "--health-command", "true"], "cannot be used with"),
            (&["--port", "80", "--drain", "5"], "with its unit"),
        ] {
            let error = parsed(options).expect_err(why);
            assert!(error.contains(why), "{options:?}: {error}");
        }
    }
}
