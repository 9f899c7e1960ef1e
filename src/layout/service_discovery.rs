//! The znodes of registered services: `<base>/<name>/<id>`, with one instance as JSON in each.
//!
//! The format is that of `JsonInstanceSerializer` in curator-x-discovery 5: all fields in this order, `null` where
//! there is no value. What other programs leave out is read as if it were missing there.

use serde::{Deserialize, Serialize};

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
}
