//! The security layer of SASL GSSAPI (RFC 4752, section 3.1): the server offers layers, the client selects none.
//!
//! ZooKeeper carries its requests outside of GSSAPI, so nothing else can be selected. TLS encrypts them.

/// The bit of "no security layer".
const NO_LAYER: u8 = 1;

/// Returns the client's selection for the server's offer, both as they are before and after the protection by GSSAPI.
///
/// The selection has no size of a buffer, and no authorization identity: the server takes the one that the ticket
/// proves.
pub(crate) fn select(offer: &[u8]) -> Result<[u8; 4], String> {
    let [layers, _, _, _] = offer else {
        return Err(format!("the server's offer of security layers has {} bytes instead of 4", offer.len()));
    };
    if layers & NO_LAYER == 0 {
        return Err(format!(
            "the server requires a security layer (offer {layers:#04x}), which ZooKeeper does not have; \
             set its javax.security.sasl.qop to auth"
        ));
    }
    Ok([NO_LAYER, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_layer_is_selected_if_it_is_offered() {
        for offer in [[1, 0, 0, 0], [7, 0, 0xff, 0xff], [3, 1, 0, 0]] {
            assert_eq!(select(&offer), Ok([1, 0, 0, 0]), "{offer:?}");
        }
    }

    #[test]
    fn any_other_offer_is_refused() {
        for (offer, expected) in [
            (&[][..], "0 bytes"),
            (&[1, 0, 0], "3 bytes"),
            (&[1, 0, 0, 0, 0], "5 bytes"),
            (&[0, 0, 0, 0], "0x00"),
            (&[6, 0, 1, 0], "0x06"),
        ] {
            let why = select(offer).expect_err("a refusal");
            assert!(why.contains(expected), "{offer:?}: {why}");
        }
    }
}
