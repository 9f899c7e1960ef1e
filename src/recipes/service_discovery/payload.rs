//! The payload of an instance with its Java class, as Jackson writes them: the class is a field of an object, and comes
//! before most other values, as in `["java.util.ArrayList", [1, 2]]`.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::layout::service_discovery::CLASS;

/// Adds the class to a payload.
pub(super) fn with_class(payload: Value, class: &str) -> Value {
    match payload {
        Value::Object(mut fields) => {
            fields.insert(CLASS.to_owned(), class.into());
            Value::Object(fields)
        }
        other => Value::from(vec![class.into(), other]),
    }
}

/// Reads a payload, and its class if the node names one.
pub(super) fn read<P: DeserializeOwned>(mut payload: Value) -> Result<(P, Option<String>), String> {
    if let Some(class) = payload.as_object_mut().and_then(|fields| fields.remove(CLASS)) {
        return read_object(payload, class);
    }
    let Some([Value::String(class), value]) = payload.as_array().map(Vec::as_slice).filter(|pair| has_class(pair))
    else {
        return P::deserialize(payload).map(|read| (read, None)).map_err(|error| error.to_string());
    };
    let within = match P::deserialize(value) {
        Ok(read) => return Ok((read, Some(class.clone()))),
        Err(error) => error,
    };
    let whole = P::deserialize(&payload).map(|read| (read, None));
    whole.map_err(|whole| format!("as the class {class}: {within}; as a list: {whole}"))
}

/// Returns whether a list begins with what looks like a Java class with its package, such as `java.lang.Long`.
fn has_class(list: &[Value]) -> bool {
    let Some(Some((package, class))) = list.first().map(|first| first.as_str()?.rsplit_once('.')) else { return false };
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name.chars().all(|one| one.is_alphanumeric() || matches!(one, '_' | '$'))
    };
    package.split('.').all(is_name) && is_name(class) && class.starts_with(char::is_uppercase)
}

/// Reads an object without its class; if its type needs that, as an enum with `#[serde(tag = "@class")]` does, with it.
fn read_object<P: DeserializeOwned>(mut object: Value, class: Value) -> Result<(P, Option<String>), String> {
    let name = class.as_str().map_or_else(|| class.to_string(), str::to_owned);
    let without = match P::deserialize(&object) {
        Ok(read) => return Ok((read, Some(name))),
        Err(error) => error,
    };
    object[CLASS] = class;
    match P::deserialize(object) {
        Ok(read) => Ok((read, Some(name))),
        Err(with) => Err(format!("{without}; with its class: {with}")),
    }
}
