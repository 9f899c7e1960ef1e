//! The principal of the server.

use std::net::IpAddr;

use zookeeper_recipes::SaslServer;

use crate::InvalidOption;

/// The component of a principal that stands for the host, as in Hadoop's configuration.
const HOST: &str = "_HOST";

/// How the principal of a server follows from its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    /// As Kerberos writes it, with `_HOST` for the host.
    principal: String,
    pub(crate) canonicalizes: bool,
}

impl Default for Service {
    fn default() -> Self {
        Service { principal: format!("zookeeper/{HOST}"), canonicalizes: false }
    }
}

impl Service {
    /// Sets the name of the service, and keeps the rest.
    pub(crate) fn named(self, name: &str) -> Result<Self, InvalidOption> {
        if name.is_empty() || name.contains(['/', '@', '\0']) || name.contains(char::is_whitespace) {
            let why = "it must not be empty and must not contain '/', '@' or white space; server_principal() takes a \
                       whole principal";
            return Err(InvalidOption::new("service name", name, why));
        }
        Ok(Service { principal: format!("{name}/{HOST}"), ..self })
    }

    /// Sets the whole principal.
    pub(crate) fn principal(self, principal: &str) -> Result<Self, InvalidOption> {
        check_principal("server principal", principal)?;
        Ok(Service { principal: principal.to_owned(), ..self })
    }

    /// Returns the principal of a server. May block: looks the name of an address up, if that is asked for.
    pub(crate) fn of(&self, server: &SaslServer) -> String {
        if !self.principal.contains(HOST) {
            return self.principal.clone();
        }
        let canonical = server.address().filter(|_| self.canonicalizes).and_then(|address| name_of(address.ip()));
        self.principal.replace(HOST, canonical.as_deref().unwrap_or(server.host()))
    }
}

/// Returns the name of an address. `None` if it has none, as Java's client then takes the host of the connect string.
fn name_of(address: IpAddr) -> Option<String> {
    let name = dns_lookup::lookup_addr(&address).ok()?;
    // An address without a name is returned as it is.
    if name.parse::<IpAddr>().is_ok() { None } else { Some(name) }
}

/// Checks what can be seen without Kerberos: that there is a name, and at most one realm.
pub(crate) fn check_principal(what: &str, principal: &str) -> Result<(), InvalidOption> {
    let (name, realm) = principal.split_once('@').unwrap_or((principal, "default"));
    let is_whole = !name.is_empty() && !realm.is_empty() && !realm.contains('@');
    if is_whole && !principal.contains('\0') && !principal.contains(char::is_whitespace) {
        return Ok(());
    }
    Err(InvalidOption::new(what, principal, "expected NAME[/INSTANCE][@REALM] without white space"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, address: &str) -> SaslServer {
        SaslServer::new(host, Some(address.parse().expect("an address")))
    }

    #[test]
    fn the_host_of_the_connect_string_is_a_part_of_the_principal() {
        let service = Service::default();
        assert_eq!(service.of(&server("zk1.example.org", "127.0.0.1:2181")), "zookeeper/zk1.example.org");
        assert_eq!(service.of(&SaslServer::new("10.0.0.1", None)), "zookeeper/10.0.0.1");
        let service = service.named("zk").expect("a name");
        assert_eq!(service.of(&SaslServer::new("zk1", None)), "zk/zk1");
    }

    #[test]
    fn a_whole_principal_may_have_a_place_for_the_host() {
        let service = |principal| Service::default().principal(principal).expect("a principal");
        let server = SaslServer::new("zk1", None);
        assert_eq!(service("zookeeper/ensemble@EXAMPLE.ORG").of(&server), "zookeeper/ensemble@EXAMPLE.ORG");
        assert_eq!(service("zookeeper/_HOST@EXAMPLE.ORG").of(&server), "zookeeper/zk1@EXAMPLE.ORG");
    }

    #[test]
    fn an_address_without_a_name_leaves_the_host_as_it_is() {
        let service = Service { canonicalizes: true, ..Service::default() };
        // Of a block for documentation (RFC 5737).
        assert_eq!(service.of(&server("zk1", "192.0.2.1:2181")), "zookeeper/zk1");
        assert_eq!(service.of(&server("127.0.0.1", "127.0.0.1:2181")), "zookeeper/localhost");
    }

    #[test]
    fn malformed_names_are_refused() {
        for name in ["", "zoo/keeper", "zookeeper@REALM", "zoo keeper", "zoo\0"] {
            let error = Service::default().named(name).expect_err(name).to_string();
            assert!(error.starts_with("GSSAPI service name "), "{error}");
        }
        for principal in ["", "@REALM", "zookeeper/zk1@", "a@B@C", "a b", "a\0"] {
            let error = Service::default().principal(principal).expect_err(principal).to_string();
            assert!(error.contains("expected NAME[/INSTANCE][@REALM]"), "{error}");
        }
    }
}
