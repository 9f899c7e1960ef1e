//! Where the client's tickets come from.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libgssapi::credential::Cred;
use libgssapi::error::Error;
use zookeeper_recipes::SaslError;

use crate::InvalidOption;
use crate::failure;
use crate::service::check_principal;
use crate::store::{self, Entry};

/// The first byte of every keytab.
const KEYTAB_FORMAT: u8 = 5;

/// Where the client's tickets come from, and whose they were.
#[derive(Debug)]
pub(crate) struct Credentials {
    source: Source,
    /// The principal of the latest ticket: GSSAPI does not tell that of an expired one.
    latest: Mutex<Option<String>>,
}

#[derive(Debug)]
enum Source {
    /// As `KRB5CCNAME` or krb5.conf says.
    DefaultCache,
    Cache(CString),
    Keytab {
        keytab: PathBuf,
        principal: String,
        entries: Vec<Entry>,
    },
}

impl Credentials {
    fn new(source: Source) -> Self {
        Credentials { source, latest: Mutex::new(None) }
    }

    pub(crate) fn default_cache() -> Self {
        Credentials::new(Source::DefaultCache)
    }

    pub(crate) fn cache(name: &str) -> Result<Self, InvalidOption> {
        match CString::new(name) {
            Ok(cache) if !name.is_empty() => Ok(Credentials::new(Source::Cache(cache))),
            _ => {
                let why = "it must not be empty or contain a zero byte; expected [TYPE:]NAME as in KRB5CCNAME";
                Err(InvalidOption::new("ticket cache", name, why))
            }
        }
    }

    /// Checks that the keytab can be read now. It may be replaced later: it is read again for each new ticket.
    pub(crate) fn keytab(path: &Path, principal: &str) -> Result<Self, InvalidOption> {
        check_principal("principal", principal)?;
        let invalid = |why: &str| InvalidOption::new("keytab", &path.to_string_lossy(), why);
        let mut format = [0];
        match File::open(path).and_then(|mut file| file.read_exact(&mut format)) {
            Err(error) => return Err(invalid(&format!("it cannot be read ({error})"))),
            Ok(()) if format != [KEYTAB_FORMAT] => return Err(invalid("it is not a keytab: make it with ktadd")),
            Ok(()) => {}
        }
        let path = std::path::absolute(path).map_err(|error| invalid(&error.to_string()))?;
        let in_file = path.to_str().and_then(|path| CString::new(format!("FILE:{path}")).ok());
        let in_file = in_file.ok_or_else(|| invalid("the path must be UTF-8"))?;
        // The cache of this process for this principal and keytab: neither the user's own cache nor other keytabs are
        // touched, and a further mechanism with the same ones finds the tickets of the first.
        let cache = CString::new(format!("MEMORY:zookeeper-recipes:{principal}:{}", path.display()));
        let cache = cache.map_err(|_| invalid("the path must not contain a zero byte"))?;
        let entries = vec![(c"client_keytab", in_file), (c"ccache", cache)];
        Ok(Credentials::new(Source::Keytab { keytab: path, principal: principal.to_owned(), entries }))
    }

    /// Returns credentials that have not expired. Those of a keytab are renewed when half of their time is over; those
    /// of a cache are what is in it now. May block.
    pub(crate) fn acquire(&self) -> Result<Cred, Error> {
        let cred = match &self.source {
            Source::DefaultCache => store::acquire(None, &[]),
            Source::Cache(cache) => store::acquire(None, &[(c"ccache", cache.clone())]),
            Source::Keytab { principal, entries, .. } => store::acquire(Some(principal), entries),
        }?;
        // Servers accept a ticket for a while after its end, but a context of it has expired before it is established.
        cred.lifetime()?;
        if let Some(name) = cred.name().ok().and_then(|name| name.display_name().ok()) {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(String::from_utf8_lossy(&name).into());
        }
        Ok(cred)
    }

    /// Returns the error of [`acquire`](Self::acquire). `who` says which principal asked for which service.
    pub(crate) fn explain(&self, who: &str, error: Error) -> SaslError {
        let Source::Keytab { keytab, .. } = &self.source else { return failure::explain(who, error) };
        if !failure::is_without_credentials(error) {
            return failure::explain(who, error);
        }
        // GSSAPI says only that there is no ticket, in its own cache for this keytab.
        match File::open(keytab) {
            Err(error) => SaslError::transient(format!("{who}: the keytab cannot be read ({error}); restore it")),
            Ok(_) => SaslError::refused(format!(
                "{who}: the keytab has no key of this principal; put it there, or correct the principal's name or realm"
            )),
        }
    }

    /// Describes the client for errors, as far as it is known.
    pub(crate) fn describe(&self) -> String {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let source = match &self.source {
            Source::DefaultCache => "the default ticket cache".to_owned(),
            Source::Cache(cache) => format!("ticket cache {}", cache.to_string_lossy()),
            Source::Keytab { keytab, principal, .. } => return format!("{principal} (keytab {})", keytab.display()),
        };
        latest.map_or_else(|| source.clone(), |latest| format!("{latest} ({source})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_named() {
        let why = |credentials: Result<Credentials, InvalidOption>| credentials.expect_err("bad input").to_string();
        assert_eq!(
            why(Credentials::cache("")),
            "GSSAPI ticket cache \"\": it must not be empty or contain a zero byte; \
             expected [TYPE:]NAME as in KRB5CCNAME"
        );
        let missing = why(Credentials::keytab(Path::new("/none/app.keytab"), "app@A"));
        let expected = "GSSAPI keytab \"/none/app.keytab\": it cannot be read (No such file";
        assert!(missing.starts_with(expected), "{missing}");
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(why(Credentials::keytab(&manifest, "app@A")).contains("it is not a keytab"));
        assert!(why(Credentials::keytab(&manifest, "app@")).contains("GSSAPI principal \"app@\""));
        assert!(why(Credentials::keytab(Path::new(env!("CARGO_MANIFEST_DIR")), "app@A")).contains("directory"));
    }
}
