//! What GSSAPI's errors mean: whether a later attempt may succeed, and what to do.

use libgssapi::error::{Error, MajorFlags};
use zookeeper_recipes::SaslError;

/// The first code of Kerberos's own errors, `ERROR_TABLE_BASE_krb5`. The codes of the protocol (RFC 4120, section
/// 7.5.9) follow it in their order.
const KRB5: u32 = 0x96c7_3a00;

/// The part of a major code that has the error of a routine (RFC 2744, section 3.9.1).
const ROUTINE_ERRORS: u32 = 0x00ff_0000;

/// What follows from an error, and the advice to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meaning {
    is_transient: bool,
    advice: &'static str,
}

const fn refused(advice: &'static str) -> Meaning {
    Meaning { is_transient: false, advice }
}

const fn transient(advice: &'static str) -> Meaning {
    Meaning { is_transient: true, advice }
}

/// Returns the meaning of the codes. What is not known may be better the next time: a wrong guess must not end a
/// session.
fn meaning(major: MajorFlags, minor: u32) -> Meaning {
    match minor.wrapping_sub(KRB5) {
        // KDC_ERR_C_PRINCIPAL_UNKNOWN, KDC_ERR_WRONG_REALM
        6 | 68 => refused("create the principal in this realm, or correct the principal's name or realm"),
        // KDC_ERR_S_PRINCIPAL_UNKNOWN
        7 => refused(
            "create the principal of this server and put its key into the server's keytab, or correct service name, \
             host and realm: service(), canonicalize_host(), server_principal()",
        ),
        // KDC_ERR_CLIENT_REVOKED, KDC_ERR_KEY_EXP
        18 | 23 => refused("let the administrator of the realm unlock the principal or renew its key"),
        // KDC_ERR_PREAUTH_FAILED, KRB_AP_ERR_BAD_INTEGRITY
        24 | 31 => refused("the keytab does not have the current key: export it again"),
        // KRB_AP_ERR_TKT_EXPIRED
        32 => transient("renew the ticket with kinit"),
        // KRB_AP_ERR_SKEW, KRB5_KDCREP_SKEW
        37 | 148 => transient("set the clocks of this machine, the KDC and the server"),
        // KRB5_REALM_UNKNOWN, KRB5_REALM_CANT_RESOLVE, KRB5_KDC_UNREACH. A name service may be down.
        154 | 220 | 156 => transient("check the realm, its KDCs in krb5.conf, and the network"),
        // KRB5_CC_BADNAME
        139 => refused("correct the name of the ticket cache"),
        // KRB5_CC_NOTFOUND, KRB5_FCC_NOFILE
        141 | 195 => transient("get a ticket with kinit"),
        _ => meaning_of_major(major),
    }
}

/// Returns whether a major code has this error of a routine. They are numbers, although the type has them as bits.
fn is(major: MajorFlags, error: MajorFlags) -> bool {
    major.bits() & ROUTINE_ERRORS == error.bits()
}

/// Returns whether there is no ticket and no key to get one with: KRB5_CC_NOTFOUND, KRB5_KT_NOTFOUND, KRB5_FCC_NOFILE.
pub(crate) fn is_without_credentials(error: Error) -> bool {
    matches!(error.minor.wrapping_sub(KRB5), 141 | 181 | 195)
}

fn meaning_of_major(major: MajorFlags) -> Meaning {
    let is = |error| is(major, error);
    if is(MajorFlags::GSS_S_BAD_NAME) || is(MajorFlags::GSS_S_BAD_NAMETYPE) || is(MajorFlags::GSS_S_BAD_MECH) {
        return refused("correct the principals");
    }
    if is(MajorFlags::GSS_S_CREDENTIALS_EXPIRED) || is(MajorFlags::GSS_S_CONTEXT_EXPIRED) {
        return transient("renew the ticket with kinit");
    }
    if is(MajorFlags::GSS_S_NO_CRED) {
        return transient("get a ticket with kinit");
    }
    transient("see the system's Kerberos configuration")
}

/// Returns the error of an exchange. `who` says which principal asked for which service.
///
/// Must be called on the thread that got `error`: Kerberos keeps the text of an error for its thread.
pub(crate) fn explain(who: &str, error: Error) -> SaslError {
    let Meaning { is_transient, advice } = meaning(error.major, error.minor);
    let why = format!("{who}: {}; {advice}", text(error));
    if is_transient { SaslError::transient(why) } else { SaslError::refused(why) }
}

/// Returns the error of the server's side: what it sent proves nothing, unless the ticket has just expired.
pub(crate) fn unproven(who: &str, error: Error) -> SaslError {
    if is(error.major, MajorFlags::GSS_S_CONTEXT_EXPIRED) {
        return explain(who, error);
    }
    SaslError::refused(format!("{who}: the server did not prove who it is: {}", text(error)))
}

/// Returns the texts of both codes in one line. The major code of most errors only says that the other has the reason.
fn text(error: Error) -> String {
    let both = error.to_string().replace(['\n', '\r'], " ");
    let Some(minor) = both.strip_prefix("Unspecified GSS failure.  Minor code may provide more information") else {
        return both.trim_end().trim_end_matches(" (Success)").to_owned();
    };
    let minor = minor.trim();
    minor.strip_prefix('(').and_then(|minor| minor.strip_suffix(')')).unwrap_or(minor).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(number: u32) -> Meaning {
        meaning(MajorFlags::GSS_S_FAILURE, KRB5 + number)
    }

    #[test]
    fn what_the_kdc_decides_is_final_and_what_time_heals_is_not() {
        for number in [6, 7, 18, 23, 24, 31, 68, 139] {
            assert!(!code(number).is_transient, "{number}");
        }
        for number in [32, 37, 148, 141, 154, 156, 195, 220, 29, 52] {
            assert!(code(number).is_transient, "{number}");
        }
        for (number, advice) in [(32, "kinit"), (37, "clocks"), (148, "clocks"), (139, "cache"), (156, "network")] {
            assert!(code(number).advice.contains(advice), "{number}: {}", code(number).advice);
        }
        assert!(meaning(MajorFlags::GSS_S_CREDENTIALS_EXPIRED, 0).is_transient);
        let expired = Error { major: MajorFlags::GSS_S_CONTEXT_EXPIRED, minor: 0 };
        assert!(unproven("alice", expired).is_transient());
        let forged = Error { major: MajorFlags::GSS_S_BAD_SIG, minor: 0 };
        assert!(!unproven("alice", forged).is_transient());
        assert!(meaning(MajorFlags::GSS_S_NO_CRED, 13).is_transient);
        assert!(meaning(MajorFlags::GSS_S_FAILURE, 0).is_transient);
        for major in [MajorFlags::GSS_S_BAD_NAME, MajorFlags::GSS_S_BAD_NAMETYPE, MajorFlags::GSS_S_BAD_MECH] {
            assert!(!meaning(major, 0).is_transient, "{major:?}");
        }
    }

    #[test]
    fn the_text_of_a_code_that_says_nothing_is_left_out() {
        let unreachable = Error { major: MajorFlags::GSS_S_FAILURE, minor: KRB5 + 156 };
        let error = explain("alice@A for zookeeper/zk1@A", unreachable);
        let text = error.to_string();
        assert!(error.is_transient());
        assert!(text.starts_with("alice@A for zookeeper/zk1@A: "), "{text}");
        assert!(!text.contains("Unspecified") && !text.contains('\n'), "{text}");
        assert!(text.ends_with("; check the realm, its KDCs in krb5.conf, and the network"), "{text}");
        let bad_name = Error { major: MajorFlags::GSS_S_BAD_NAME, minor: 0 };
        assert!(explain("alice", bad_name).to_string().contains("nvalid name"), "{}", explain("alice", bad_name));
    }
}
