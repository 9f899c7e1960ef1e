//! Credentials from a named ticket cache or keytab: the one call of GSSAPI that `libgssapi` does not wrap.
//!
//! The environment variables that name a cache or a keytab are of the whole process, and setting one is not safe while
//! other threads run. A credential store names them for one call.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::ptr;

use libgssapi::credential::Cred;
use libgssapi::error::{Error, MajorFlags};
use libgssapi_sys as sys;

/// 1.2.840.113554.1.2.2.1, a name as Kerberos writes it (RFC 1964, section 2.1.1).
const KRB5_PRINCIPAL_NAME: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01";

/// What a store names: a key of MIT's [credential store extensions][1], and its value.
///
/// [1]: https://web.mit.edu/kerberos/krb5-latest/doc/appdev/gssapi.html#credential-store-extensions
pub(crate) type Entry = (&'static CStr, CString);

/// Returns credentials to initiate contexts with, of `principal` or of the store's own, from the default store if there
/// are no entries. May block: reads files, and may ask a KDC.
pub(crate) fn acquire(principal: Option<&str>, entries: &[Entry]) -> Result<Cred, Error> {
    let name = principal.map(Name::import).transpose()?;
    let mut elements: Vec<sys::gss_key_value_element_desc> = entries
        .iter()
        .map(|(key, value)| sys::gss_key_value_element_desc { key: key.as_ptr(), value: value.as_ptr() })
        .collect();
    let store = sys::gss_key_value_set_desc {
        count: u32::try_from(elements.len()).expect("a few entries"),
        elements: elements.as_mut_ptr(),
    };
    let mut minor = 0;
    let mut cred: sys::gss_cred_id_t = ptr::null_mut();
    // SAFETY: the pointers are valid during the call, which keeps none of them: `name`, `elements` and the strings in
    // `entries` live until its end. A null pointer stands for the default name, store and mechanisms, and for results
    // that are not asked for.
    let major = unsafe {
        sys::gss_acquire_cred_from(
            &mut minor,
            name.as_ref().map_or(ptr::null_mut(), |name| name.0),
            sys::_GSS_C_INDEFINITE,
            ptr::null_mut(),
            sys::GSS_C_INITIATE as sys::gss_cred_usage_t,
            if entries.is_empty() { ptr::null() } else { &store },
            &mut cred,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    check(major, minor)?;
    // SAFETY: the call succeeded, so `cred` is a credential that nothing else owns.
    Ok(unsafe { Cred::from_c(cred) })
}

/// An imported name, released on drop.
struct Name(sys::gss_name_t);

impl Name {
    fn import(principal: &str) -> Result<Self, Error> {
        let mut text = sys::gss_buffer_desc { length: principal.len(), value: principal.as_ptr().cast_mut().cast() };
        let mut kind = sys::gss_OID_desc {
            length: u32::try_from(KRB5_PRINCIPAL_NAME.len()).expect("ten bytes"),
            elements: KRB5_PRINCIPAL_NAME.as_ptr().cast_mut().cast(),
        };
        let mut minor = 0;
        let mut name: sys::gss_name_t = ptr::null_mut();
        // SAFETY: the call reads the text and the kind, which live until its end, and copies what it keeps.
        let major = unsafe { sys::gss_import_name(&mut minor, &mut text, &mut kind, &mut name) };
        check(major, minor)?;
        Ok(Name(name))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name was imported, and is released once.
        unsafe { sys::gss_release_name(&mut minor, &mut self.0) };
    }
}

fn check(major: u32, minor: u32) -> Result<(), Error> {
    if major == sys::GSS_S_COMPLETE {
        return Ok(());
    }
    Err(Error { major: MajorFlags::from_bits_retain(major), minor })
}
