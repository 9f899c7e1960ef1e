//! The bytes of an item, as they are shown.

use serde::Serialize;
use serde_json::Value;

/// How many characters of an item are shown in a list.
const SHOWN_CHARS: usize = 60;

/// The bytes of an item, for JSON, which has only text. Serialized flat: as `item`, or as `item_hex`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Item(String),
    /// Bytes that are not text, in hexadecimal digits, so that nothing is lost.
    ItemHex(String),
}

impl Content {
    /// Returns the bytes as text if they are text.
    pub fn of(bytes: &[u8]) -> Content {
        match std::str::from_utf8(bytes) {
            Ok(text) => Content::Item(text.to_owned()),
            Err(_) => Content::ItemHex(hex(bytes)),
        }
    }
}

/// Returns the bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes on one line: JSON as it is, which can be copied, and other text in quotes.
pub fn on_a_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str::<Value>(&text) {
        // Line breaks between the values mean nothing, and a string in JSON has none.
        Ok(Value::Object(_) | Value::Array(_)) => text.chars().filter(|c| !c.is_control()).collect(),
        _ => format!("{text:?}"),
    }
}

/// Returns the bytes in quotes, on one line and not too long.
pub fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN_CHARS) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_told_in_full() {
        let json = |bytes| serde_json::to_string(&Content::of(bytes)).expect("it is a value");
        assert_eq!(json("ü".as_bytes()), r#"{"item":"ü"}"#);
        assert_eq!(json(&[0, 0xff]), r#"{"item_hex":"00ff"}"#);
    }

    #[test]
    fn json_is_shown_as_it_is_and_on_one_line() {
        assert_eq!(on_a_line(br#"{"id": "a\nb", "n": [1]}"#), r#"{"id": "a\nb", "n": [1]}"#);
        assert_eq!(on_a_line(b"{\n  \"n\": 1\n}\n"), r#"{  "n": 1}"#);
        assert_eq!(on_a_line(b"host-1"), r#""host-1""#);
        assert_eq!(on_a_line(b"12"), r#""12""#);
    }

    #[test]
    fn an_item_among_others_is_on_one_line_and_not_too_long() {
        assert_eq!(quoted(b"a\nb"), r#""a\nb""#);
        assert_eq!(quoted("ü".repeat(61).as_bytes()), format!("\"{}\"...", "ü".repeat(60)));
    }
}
