//! The znodes of registered services: `<base>/<name>/<id>`, with one instance as JSON in each.
//!
//! The format is that of `JsonInstanceSerializer` in curator-x-discovery 5: all fields in this order, `null` where
//! there is no value. What other programs leave out is read as if it were missing there.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::parts::before_number;

/// The field of a payload that names its Java class.
pub(crate) const CLASS: &str = "@class";

/// How long an instance stays registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ServiceType {
    /// An ephemeral node: until the process unregisters or fails. This is the default.
    #[default]
    Dynamic,
    /// A persistent node: until it is unregistered, even if the process fails.
    Static,
    /// As `Static`. Curator has two names for this.
    Permanent,
    /// As `Dynamic`, with a number after the id in the name of the node, so that several nodes can have one id.
    DynamicSequential,
}

/// One piece of a [`UriSpec`](crate::service_discovery::UriSpec).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct UriPart {
    pub(crate) value: String,
    pub(crate) variable: bool,
}

/// A URI with variables, as Curator writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) struct UriParts {
    #[serde(default)]
    pub(crate) parts: Vec<UriPart>,
}

/// The data of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) address: Option<String>,
    #[serde(default)]
    pub(crate) port: Option<u16>,
    #[serde(default)]
    pub(crate) ssl_port: Option<u16>,
    #[serde(default)]
    pub(crate) payload: Option<serde_json::Value>,
    /// In milliseconds since 1970.
    #[serde(default, rename = "registrationTimeUTC")]
    pub(crate) registration_time: i64,
    #[serde(default)]
    pub(crate) service_type: Option<ServiceType>,
    #[serde(default)]
    pub(crate) uri_spec: Option<UriParts>,
    /// Without it, the instance is enabled. Clients of Curator before 4.2 cannot read a node that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) enabled: Option<bool>,
}

/// Shows the name that Curator gives it, such as `DYNAMIC`.
impl fmt::Display for ServiceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServiceType::Dynamic => "DYNAMIC",
            ServiceType::Static => "STATIC",
            ServiceType::Permanent => "PERMANENT",
            ServiceType::DynamicSequential => "DYNAMIC_SEQUENTIAL",
        })
    }
}

impl Record {
    /// Reads the data of the node `node` in the directory of the service `service`.
    ///
    /// # Errors
    /// Why it is not an instance of this service, in one line.
    pub(crate) fn of_node(service: &str, node: &str, data: &[u8]) -> Result<Record, String> {
        let read = serde_json::from_slice::<Record>(data);
        let record = read.map_err(|error| error.to_string().replace(char::is_control, " "))?;
        if record.name != service {
            return Err(format!("its service is {:?}, not that of its directory", record.name));
        }
        if !record.belongs_to(node) {
            return Err(format!("its id is {:?}, which its node is not named by", record.id));
        }
        Ok(record)
    }

    /// Returns whether an instance with this id has a node with this name. A server appends its number to the id of a
    /// sequential one, and `_c_<uuid>-` may come before it.
    fn belongs_to(&self, node: &str) -> bool {
        let is_sequential = self.service_type == Some(ServiceType::DynamicSequential);
        node == self.id || (is_sequential && before_number(node).is_some_and(|before| before.ends_with(&self.id)))
    }
}

/// Returns the number of bytes that the data of an instance has at least.
pub(crate) fn shortest_record(service: &str, node: &str) -> usize {
    r#"{"name":"","id":""}"#.len() + service.len() + node.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by curator-x-discovery 5.7.1.
    const OF_CURATOR: &str = concat!(
        r#"{"name":"s","id":"1","address":"10.0.0.1","port":80,"sslPort":443,"payload":"hi","#,
        r#""registrationTimeUTC":1795690773844,"serviceType":"DYNAMIC","uriSpec":{"parts":["#,
        r#"{"value":"scheme","variable":true},{"value":"://","variable":false}]}}"#
    );

    #[test]
    fn what_curator_writes_is_written_again_byte_for_byte() {
        let record: Record = serde_json::from_str(OF_CURATOR).unwrap();
        assert_eq!((record.port, record.ssl_port, record.enabled), (Some(80), Some(443), None));
        assert_eq!(serde_json::to_string(&record).unwrap(), OF_CURATOR);
    }

    #[test]
    fn no_value_is_null_and_enabled_is_left_out() {
        let record: Record = serde_json::from_str(r#"{"name":"s","id":"1"}"#).unwrap();
        let written = concat!(
            r#"{"name":"s","id":"1","address":null,"port":null,"sslPort":null,"payload":null,"#,
            r#""registrationTimeUTC":0,"serviceType":null,"uriSpec":null}"#
        );
        assert_eq!(serde_json::to_string(&record).unwrap(), written);
        let disabled = Record { enabled: Some(false), ..record };
        assert!(serde_json::to_string(&disabled).unwrap().ends_with(r#","enabled":false}"#));
    }

    #[test]
    fn unknown_fields_are_passed_over_and_bad_ones_are_errors() {
        let read = |text: &str| serde_json::from_str::<Record>(text);
        assert!(
            read(r#"{"name":"s","id":"1","zone":7,"enabled":false}"#).is_ok_and(|record| record.enabled == Some(false))
        );
        let bad = [
            r#"{"id":"1"}"#,
            r#"{"name":"s"}"#,
            r#"{"name":"s","id":"1","port":65536}"#,
            r#"{"name":"s","id":"1","serviceType":"ELASTIC"}"#,
            r#"[]"#,
            "",
        ];
        for text in bad {
            assert!(read(text).is_err(), "{text}");
        }
        let sequential = r#"{"name":"s","id":"1","serviceType":"DYNAMIC_SEQUENTIAL"}"#;
        assert_eq!(read(sequential).unwrap().service_type, Some(ServiceType::DynamicSequential));
    }

    #[test]
    fn the_node_of_an_instance() {
        let record = |id: &str, kind: &str| format!(r#"{{"name":"s","id":"{id}","serviceType":{kind}}}"#);
        let sequential = r#""DYNAMIC_SEQUENTIAL""#;
        let good = [
            ("1", record("1", "null")),
            ("1", record("1", r#""STATIC""#)),
            ("10000000002", record("1", sequential)),
            ("_c_8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a01-10000000002", record("1", sequential)),
        ];
        for (node, data) in good {
            assert!(Record::of_node("s", node, data.as_bytes()).is_ok(), "{node} {data}");
        }
        let bad = [
            ("t", "1", record("1", "null"), "its service is \"s\", not that of its directory"),
            ("s", "10000000002", record("1", "null"), "its id is \"1\", which its node is not named by"),
            ("s", "20000000002", record("1", sequential), "its id is \"1\", which its node is not named by"),
            ("s", "1", "{".to_owned(), "EOF while parsing an object at line 1 column 1"),
        ];
        for (service, node, data, why) in bad {
            assert_eq!(Record::of_node(service, node, data.as_bytes()), Err(why.to_owned()));
        }
        let beyond_a_line = Record::of_node("s", "1", &record("1", "\"a\\nb\"").into_bytes()).unwrap_err();
        assert!(beyond_a_line.starts_with("unknown variant `a b`"), "{beyond_a_line}");
    }

    #[test]
    fn no_instance_is_shorter_than_the_shortest() {
        assert_eq!(shortest_record("api", "one"), r#"{"name":"api","id":"one"}"#.len());
        assert!(Record::of_node("api", "one", br#"{"name":"api","id":"one"}"#).is_ok());
    }

    #[test]
    fn a_type_is_shown_as_it_is_written() {
        for (kind, name) in [
            (ServiceType::Dynamic, "DYNAMIC"),
            (ServiceType::Static, "STATIC"),
            (ServiceType::Permanent, "PERMANENT"),
            (ServiceType::DynamicSequential, "DYNAMIC_SEQUENTIAL"),
        ] {
            assert_eq!((kind.to_string(), serde_json::to_value(kind).unwrap()), (name.to_owned(), name.into()));
        }
    }
}
