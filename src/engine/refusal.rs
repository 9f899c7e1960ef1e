//! What the error codes of the wire mean.

use super::error::Error;
use crate::protocol::{ErrorCode, OpCode};

/// Returns the error for the code with which a server refused a request. `needs` is the operation that the request
/// needs.
pub(crate) fn refusal(code: ErrorCode, needs: OpCode) -> Error {
    match code {
        ErrorCode::NoNode => Error::NoNode,
        ErrorCode::NodeExists => Error::NodeExists,
        ErrorCode::NotEmpty => Error::NotEmpty,
        ErrorCode::BadVersion => Error::BadVersion,
        ErrorCode::NoAuth => Error::NoAuth,
        ErrorCode::NoChildrenForEphemerals => Error::NoChildrenForEphemerals,
        ErrorCode::InvalidAcl => Error::InvalidAcl,
        ErrorCode::QuotaExceeded => Error::QuotaExceeded,
        ErrorCode::ThrottledOp => Error::Throttled,
        ErrorCode::Unimplemented => Error::Unimplemented(needs),
        ErrorCode::BadArguments => Error::BadArguments("the server refused the arguments".to_owned()),
        ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth => Error::AuthFailed,
        ErrorCode::SessionExpired => Error::SessionEnded,
        // The server knows no more about the outcome than the client. ClickHouse Keeper times out while it elects a
        // leader.
        ErrorCode::ConnectionLoss
        | ErrorCode::SessionMoved
        | ErrorCode::OperationTimeout
        | ErrorCode::RequestTimeout => Error::ConnectionLoss,
        ErrorCode::NotReadOnly => Error::ReadOnly,
        ErrorCode::EphemeralOnLocalSession => {
            Error::Refused("the session is local to one server and cannot have ephemeral nodes".to_owned())
        }
        ErrorCode::NoWatcher => Error::Refused("the server has no such watch".to_owned()),
        ErrorCode::MarshallingError => Error::Other("the server could not read the request".to_owned()),
        code => Error::Other(format!("unexpected error code: {}", i32::from(code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_code_that_does_not_say_so_leaves_the_outcome_unknown() {
        for (code, is_unknown) in [
            (ErrorCode::NotReadOnly, false),
            (ErrorCode::EphemeralOnLocalSession, false),
            (ErrorCode::NoWatcher, false),
            (ErrorCode::BadVersion, false),
            (ErrorCode::ThrottledOp, false),
            (ErrorCode::MarshallingError, true),
            (ErrorCode::SystemError, true),
            (ErrorCode::ConnectionLoss, true),
            (ErrorCode::OperationTimeout, true),
        ] {
            assert_eq!(refusal(code, OpCode::Create).leaves_outcome_unknown(), is_unknown, "{code:?}");
        }
        assert!(refusal(ErrorCode::OperationTimeout, OpCode::Create).is_transient());
    }
}
