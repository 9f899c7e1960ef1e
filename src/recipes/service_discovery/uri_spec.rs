//! URIs with variables: Curator's `UriSpec`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::layout::service_discovery::{UriPart, UriParts};

/// How to make the URI of an instance, such as `{scheme}://{address}:{port}`: Curator's `UriSpec`.
///
/// ```
/// use zookeeper_recipes::service_discovery::{ServiceInstance, UriSpec};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let spec: UriSpec = "{scheme}://{address}:{port}/v1".parse()?;
/// let instance = ServiceInstance::<()>::builder("api")
///     .address("10.0.0.1")
///     .port(80)
///     .uri_spec(spec)
///     .build()?;
/// assert_eq!(instance.uri().as_deref(), Some("http://10.0.0.1:80/v1"));
/// # Ok(())
/// # }
/// ```
///
/// | variable | is |
/// |---|---|
/// | `scheme` | `https` if the instance has a TLS port, otherwise `http` |
/// | `name`, `id` | as registered |
/// | `address` | as registered; an IPv6 address in brackets |
/// | `port`, `ssl-port` | as registered |
/// | `registration-time-utc` | milliseconds since 1970 |
/// | `service-type` | such as `dynamic` |
/// | `[`, `]` | an opening and a closing brace |
///
/// Source: `UriSpec` in curator-x-discovery 5.4. There, a variable without a value is left out; here, there is no URI
/// then.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UriSpec(pub(super) UriParts);

/// The variables that have a value.
const VARIABLES: [&str; 10] =
    ["scheme", "name", "id", "address", "port", "ssl-port", "registration-time-utc", "service-type", "[", "]"];

/// A text is not a [`UriSpec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URI {text:?}: {why}; write variables as in {{scheme}}://{{address}}:{{port}}")]
pub struct InvalidUriSpec {
    text: String,
    why: String,
}

impl FromStr for UriSpec {
    type Err = InvalidUriSpec;

    fn from_str(text: &str) -> Result<Self, InvalidUriSpec> {
        let invalid = |why: &str| InvalidUriSpec { text: text.to_owned(), why: why.to_owned() };
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            let inside = brace.strip_prefix('{').ok_or_else(|| invalid("a } without a { before it"))?;
            let end = inside.find(['{', '}']).ok_or_else(|| invalid("a { without a } after it"))?;
            let (variable, end) = inside.split_at(end);
            rest = end.strip_prefix('}').ok_or_else(|| invalid("a { inside of a variable"))?;
            if !before.is_empty() {
                parts.push(UriPart { value: before.to_owned(), variable: false });
            }
            let variable = variable.trim();
            if !VARIABLES.contains(&variable) {
                return Err(invalid(&format!(
                    "no variable is called {variable:?}; there are {}",
                    VARIABLES.join(", ")
                )));
            }
            parts.push(UriPart { value: variable.to_owned(), variable: true });
        }
        if !rest.is_empty() {
            parts.push(UriPart { value: rest.to_owned(), variable: false });
        }
        Ok(UriSpec(UriParts { parts }))
    }
}

impl UriSpec {
    /// Puts the parts together. Returns `None` if a variable has no value.
    pub(super) fn fill(&self, value: impl Fn(&str) -> Option<String>) -> Option<String> {
        self.0.parts.iter().try_fold(String::new(), |mut uri, part| {
            match (part.variable, part.value.as_str()) {
                (false, text) => uri.push_str(text),
                (true, "address") => push_host(&mut uri, &value("address")?),
                (true, variable) => uri.push_str(&value(variable)?),
            }
            Some(uri)
        })
    }
}

/// Adds a host to a URI, in which an IPv6 address is in brackets.
fn push_host(uri: &mut String, host: &str) {
    let is_bare = host.parse::<Ipv6Addr>().is_ok() && !uri.ends_with('[');
    let (open, close) = if is_bare { ("[", "]") } else { ("", "") };
    uri.extend([open, host, close]);
}

/// Writes it as it can be parsed.
impl fmt::Display for UriSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .parts
            .iter()
            .try_for_each(|part| if part.variable { write!(f, "{{{}}}", part.value) } else { f.write_str(&part.value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_discovery::ServiceInstance;

    fn instance() -> ServiceInstance<()> {
        let builder = ServiceInstance::builder("api").id("7").address("::1").port(80).ssl_port(443);
        builder.build().expect("a good instance")
    }

    #[test]
    fn all_variables_have_a_value() {
        let spec = "{scheme}://[{address}]:{port}/{ ssl-port }/{name}/{id}/{service-type}/{[}x{]}";
        let spec: UriSpec = spec.parse().unwrap();
        assert_eq!(instance().build_uri(&spec).unwrap(), "https://[::1]:80/443/api/7/dynamic/{x}");
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }

    #[test]
    fn an_ipv6_address_is_in_brackets() {
        for spec in ["http://{address}:{port}", "http://[{address}]:{port}"] {
            assert_eq!(instance().build_uri(&spec.parse().unwrap()).unwrap(), "http://[::1]:80");
        }
    }

    #[test]
    fn a_missing_value_is_none() {
        let without = ServiceInstance::<()>::builder("api").build().unwrap();
        for spec in ["{port}", "{address}", "{ssl-port}"] {
            assert_eq!(without.build_uri(&spec.parse().unwrap()), None, "{spec}");
        }
        assert_eq!(without.build_uri(&"".parse().unwrap()).as_deref(), Some(""));
        assert_eq!(without.build_uri(&"plain".parse().unwrap()).as_deref(), Some("plain"));
    }

    #[test]
    fn braces_must_match() {
        let cases = [
            ("a}", "without a {"),
            ("{a", "without a }"),
            ("{id{b}}", "inside"),
            ("{id}}", "without a {"),
            ("{Port}", "no variable is called \"Port\"; there are scheme"),
        ];
        for (text, why) in cases {
            let error = text.parse::<UriSpec>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("{scheme}://"), "{error}");
        }
    }
}
