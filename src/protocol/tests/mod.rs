//! Tests of the module's promise: everything written can be read again, and all input gives a value or an error.
//!
//! `DECODER_CASES` sets how many random inputs three tests together try; 100 000 by default.

pub(crate) mod frames;
mod garbage;
mod lengths;
mod recorded;
mod round_trip;
mod samples;
#[cfg(feature = "integration")]
mod server;

use bytes::{Bytes, BytesMut};

use super::{Encode, Writer};

/// Returns how many random inputs each of the three tests tries.
fn cases() -> usize {
    const DEFAULT: usize = 100_000;
    let all = match std::env::var("DECODER_CASES") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("DECODER_CASES={text}: must be a number")),
        Err(_) => DEFAULT,
    };
    all / 3 + 1
}

/// Returns a record on its own, without a frame.
fn encoded(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    record.encode(&mut Writer::new(&mut out));
    out.freeze()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Bytes {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Shows the input when a test fails, even if the decoder panics.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was {}", to_hex(self.0));
        }
    }
}

/// Decodes the bytes. A decoded value, written and read again, must be the same, and no longer than it was. Returns
/// whether the bytes were decoded.
macro_rules! decodes {
    ($bytes:expr, |$from:ident| $decode:expr) => {{
        let first: &bytes::Bytes = $bytes;
        let $from = &mut $crate::protocol::Reader::new(first);
        match $decode {
            Ok(value) => {
                let second = $crate::protocol::tests::encoded(&value);
                assert!(second.len() <= first.len(), "{value:?} is longer than it was");
                let $from = &mut $crate::protocol::Reader::new(&second);
                assert_eq!($decode, Ok(value));
                true
            }
            Err(error) => {
                assert!(error.at <= first.len(), "{error}");
                false
            }
        }
    }};
}

use decodes;
