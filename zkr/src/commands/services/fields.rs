//! The fields of an instance as they are in its node, so that all but one stay as another program has written them.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The field that says whether an instance accepts work. Without it, the instance does.
const ENABLED: &str = "enabled";

/// The fields of an object, in their order, each with its text.
#[derive(Debug)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Returns the fields in the data of a node.
    pub fn of(data: &[u8]) -> serde_json::Result<Fields> {
        serde_json::from_slice(data)
    }

    /// Returns whether the instance accepts work.
    pub fn is_enabled(&self) -> bool {
        self.0.iter().all(|(name, value)| name != ENABLED || value.get() != "false")
    }

    /// Sets whether the instance accepts work. One that does has no such field afterwards, which all versions of
    /// Curator read.
    pub fn set_enabled(&mut self, enabled: bool) -> serde_json::Result<()> {
        if enabled {
            self.0.retain(|(name, _)| name != ENABLED);
            return Ok(());
        }
        let value = to_raw_value(&false)?;
        match self.0.iter_mut().find(|(name, _)| name == ENABLED) {
            Some((_, old)) => *old = value,
            None => self.0.push((ENABLED.to_owned(), value)),
        }
        Ok(())
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(AllFields)
    }
}

struct AllFields;

impl<'de> Visitor<'de> for AllFields {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(data: &str, enabled: bool) -> String {
        let mut fields = Fields::of(data.as_bytes()).expect("an object");
        fields.set_enabled(enabled).expect("it can be set");
        assert_eq!(fields.is_enabled(), enabled);
        serde_json::to_string(&fields).expect("it is JSON")
    }

    /// Numbers as they were written, an order of its own, and an unknown field.
    const OTHERS: &str = r#""zone":{"b": 1e400, "a":18446744073709551616},"name":"web","id":"1","port":80.0"#;

    #[test]
    fn the_other_fields_stay_as_they_are() {
        let without = format!("{{{OTHERS}}}");
        let disabled = format!(r#"{{{OTHERS},"enabled":false}}"#);
        assert_eq!(set(&without, false), disabled);
        assert_eq!(set(&disabled, true), without);
        assert_eq!(
            set(&format!(r#"{{"enabled" : true , {OTHERS}}}"#), false),
            format!(r#"{{"enabled":false,{OTHERS}}}"#)
        );
    }

    #[test]
    fn an_instance_that_does_not_say_so_is_enabled() {
        let is_enabled = |data: &str| Fields::of(data.as_bytes()).map(|fields| fields.is_enabled()).ok();
        for (data, enabled) in [
            ("{}", Some(true)),
            (r#"{"enabled":true}"#, Some(true)),
            (r#"{"enabled":null}"#, Some(true)),
            (r#"{"enabled": false }"#, Some(false)),
            (r#"{"\u0065nabled":false}"#, Some(false)),
            (r#"{"other":{"enabled":false}}"#, Some(true)),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(is_enabled(data), enabled, "{data}");
        }
    }
}
