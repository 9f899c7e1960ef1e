//! Jute, ZooKeeper's encoding: big-endian numbers, and a count before everything of variable length.

use std::borrow::Cow;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// The length that means "none" where a buffer or string may be absent.
const NULL: i32 = -1;

/// Bytes that violate the protocol: the field, where it starts, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} at byte {at}: {problem}")]
pub(crate) struct Malformed {
    /// The record and field.
    pub(crate) what: &'static str,
    /// The offset in the frame, without its length prefix.
    pub(crate) at: usize,
    pub(crate) problem: Problem,
}

/// What is wrong with the bytes of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// The frame ends within the field.
    #[error("{needed} bytes needed, {left} left")]
    Truncated { needed: usize, left: usize },
    /// A length or count that the rest of the frame cannot hold, or a negative one other than −1.
    #[error("length {length} with {left} bytes left")]
    Length { length: i32, left: usize },
    #[error("null where a value is required")]
    Null,
    #[error("not UTF-8")]
    NotUtf8,
    #[error("unknown value {0}")]
    Value(i32),
}

/// Can be written to the wire.
pub(crate) trait Encode {
    fn encode(&self, to: &mut Writer<'_>);
}

/// Can be read from the wire; may borrow from the frame.
pub(crate) trait Decode<'a>: Sized {
    /// The fewest bytes that a value takes. Bounds the count of a vector before memory is reserved.
    const MIN_LEN: usize;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Decodes a frame, or the body of one, from its first byte.
    fn from_frame(frame: &'a Bytes) -> Result<Self, Malformed> {
        Self::decode(&mut Reader::new(frame))
    }
}

/// Reads one frame from front to back.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(frame: &'a Bytes) -> Self {
        Reader { frame, at: 0, what: "frame" }
    }

    /// Names the field that is read next, for the error.
    pub(crate) fn field(&mut self, what: &'static str) {
        self.what = what;
    }

    /// Returns how many bytes are not read yet.
    pub(crate) fn left(&self) -> usize {
        self.frame.len() - self.at
    }

    /// Returns the unread rest, without a copy.
    pub(crate) fn rest(&self) -> Bytes {
        self.frame.slice(self.at..)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads a bool. Any byte but 0 is true, as in Java's `readBoolean`.
    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        let [byte] = self.array()?;
        Ok(byte != 0)
    }

    /// Returns a buffer as a part of the frame, which it keeps alive; `None` for null.
    pub(crate) fn buffer(&mut self) -> Result<Option<Bytes>, Malformed> {
        let frame = self.frame;
        Ok(self.buffer_ref()?.map(|part| frame.slice_ref(part)))
    }

    /// Returns a buffer that borrows from the frame; `None` for null.
    pub(crate) fn buffer_ref(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let start = self.at;
        let length = self.int()?;
        if length == NULL {
            return Ok(None);
        }
        match usize::try_from(length) {
            Ok(length) if length <= self.left() => self.take(length).map(Some),
            _ => Err(self.malformed(start, Problem::Length { length, left: self.left() })),
        }
    }

    pub(crate) fn ustring(&mut self) -> Result<&'a str, Malformed> {
        let start = self.at;
        self.ustring_or_null()?.ok_or_else(|| self.malformed(start, Problem::Null))
    }

    /// Returns a string; `None` for null.
    pub(crate) fn ustring_or_null(&mut self) -> Result<Option<&'a str>, Malformed> {
        let start = self.at;
        let text = self.buffer_ref()?.map(std::str::from_utf8).transpose();
        text.map_err(|_| self.malformed(start, Problem::NotUtf8))
    }

    /// Reads a vector. Null is an empty one, as in the Java client.
    pub(crate) fn vector<T: Decode<'a>>(&mut self) -> Result<Vec<T>, Malformed> {
        let start = self.at;
        let count = self.int()?;
        if count == NULL {
            return Ok(Vec::new());
        }
        let most = self.left() / T::MIN_LEN.max(1);
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count <= most)
            .ok_or_else(|| self.malformed(start, Problem::Length { length: count, left: self.left() }))?;
        // An element may be larger in memory than on the wire, so no more than the frame's own size is reserved in
        // advance.
        let mut elements = Vec::with_capacity(count.min(self.left() / size_of::<T>().max(1)));
        for _ in 0..count {
            elements.push(T::decode(self)?);
        }
        Ok(elements)
    }

    /// Returns an error about the field that was read last and started at `at`.
    pub(crate) fn malformed(&self, at: usize, problem: Problem) -> Malformed {
        Malformed { what: self.what, at, problem }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.frame[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.truncated(N)),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        match self.frame[self.at..].get(..length) {
            Some(bytes) => {
                self.at += length;
                Ok(bytes)
            }
            None => Err(self.truncated(length)),
        }
    }

    fn truncated(&self, needed: usize) -> Malformed {
        self.malformed(self.at, Problem::Truncated { needed, left: self.left() })
    }
}

/// Appends to a buffer.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut BytesMut,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut BytesMut) -> Self {
        Writer { out }
    }

    pub(crate) fn int(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub(crate) fn long(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.out.put_u8(u8::from(value));
    }

    pub(crate) fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.count(bytes.len());
                self.out.put_slice(bytes);
            }
            None => self.int(NULL),
        }
    }

    pub(crate) fn ustring(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    pub(crate) fn vector<T: Encode>(&mut self, elements: &[T]) {
        self.count(elements.len());
        for element in elements {
            element.encode(self);
        }
    }

    /// Writes bytes as they are, without a length.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// Writes a count. One that does not fit into an int makes the frame too long, which `frame` refuses, so its value
    /// does not matter.
    fn count(&mut self, count: usize) {
        self.int(i32::try_from(count).unwrap_or(i32::MAX));
    }
}

/// Returns the number of bytes that a string takes on the wire.
pub(crate) fn ustring_len(text: &str) -> usize {
    4 + text.len()
}

/// Bytes that no log may show: passwords, credentials, tokens.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Secret<T>(pub(crate) T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T: Encode> Encode for Secret<T> {
    fn encode(&self, to: &mut Writer<'_>) {
        self.0.encode(to);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Secret<T> {
    const MIN_LEN: usize = T::MIN_LEN;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        T::decode(from).map(Secret)
    }
}

/// Ties a Rust type to one of the primitives.
macro_rules! primitive {
    ($type:ty, $min:literal, |$value:ident, $to:ident| $encode:expr, |$from:ident| $decode:expr) => {
        impl<'a> Encode for $type {
            fn encode(&self, $to: &mut Writer<'_>) {
                let $value = self;
                $encode
            }
        }

        impl<'a> Decode<'a> for $type {
            const MIN_LEN: usize = $min;

            fn decode($from: &mut Reader<'a>) -> Result<Self, Malformed> {
                $decode
            }
        }
    };
}

primitive!((), 0, |_value, _to| (), |_from| Ok(()));
primitive!(i32, 4, |value, to| to.int(*value), |from| from.int());
primitive!(i64, 8, |value, to| to.long(*value), |from| from.long());
primitive!(bool, 1, |value, to| to.bool(*value), |from| from.bool());
primitive!(&'a str, 4, |value, to| to.ustring(value), |from| from.ustring());
primitive!(String, 4, |value, to| to.ustring(value), |from| from.ustring().map(str::to_owned));
primitive!(Option<&'a [u8]>, 4, |value, to| to.buffer(*value), |from| from.buffer_ref());
primitive!(Option<Bytes>, 4, |value, to| to.buffer(value.as_deref()), |from| from.buffer());

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, to: &mut Writer<'_>) {
        to.vector(self);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    const MIN_LEN: usize = 4;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        from.vector()
    }
}

impl<T: Encode + Clone> Encode for Cow<'_, [T]> {
    fn encode(&self, to: &mut Writer<'_>) {
        to.vector(self);
    }
}

impl<'a, T: Decode<'a> + Clone> Decode<'a> for Cow<'a, [T]> {
    const MIN_LEN: usize = 4;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        from.vector().map(Cow::Owned)
    }
}

/// Declares a record: its fields, in the order of the wire.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident<'a> { $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $name<'a> { $($(#[$field_meta])* pub(crate) $field: $type,)* }

        $crate::protocol::jute::record!(@codec $name, $name<'a>, $name<'_>, $($field: $type,)*);
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $name { $($(#[$field_meta])* pub(crate) $field: $type,)* }

        $crate::protocol::jute::record!(@codec $name, $name, $name, $($field: $type,)*);
    };
    (@codec $name:ident, $decoded:ty, $encoded:ty, $($field:ident: $type:ty,)*) => {
        impl $crate::protocol::jute::Encode for $encoded {
            fn encode(&self, _to: &mut $crate::protocol::jute::Writer<'_>) {
                $($crate::protocol::jute::Encode::encode(&self.$field, _to);)*
            }
        }

        impl<'a> $crate::protocol::jute::Decode<'a> for $decoded {
            const MIN_LEN: usize = 0 $(+ <$type as $crate::protocol::jute::Decode<'a>>::MIN_LEN)*;

            fn decode(
                _from: &mut $crate::protocol::jute::Reader<'a>,
            ) -> Result<Self, $crate::protocol::jute::Malformed> {
                Ok(Self {
                    $($field: {
                        _from.field(concat!(stringify!($name), ".", stringify!($field)));
                        $crate::protocol::jute::Decode::decode(_from)?
                    },)*
                })
            }
        }
    };
}

/// Declares an enum of numbers that later versions may add to: a number without a name is kept.
macro_rules! open_codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$code_meta:meta])* $code:ident = $number:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum $name {
            $($(#[$code_meta])* $code,)*
            /// A number that this version does not name.
            Other(i32),
        }

        impl $name {
            /// All numbers that have a name.
            pub(crate) const NAMED: &'static [$name] = &[$($name::$code,)*];
        }

        impl From<i32> for $name {
            fn from(number: i32) -> Self {
                match number {
                    $($number => $name::$code,)*
                    other => $name::Other(other),
                }
            }
        }

        impl From<$name> for i32 {
            fn from(code: $name) -> i32 {
                match code {
                    $($name::$code => $number,)*
                    $name::Other(other) => other,
                }
            }
        }

        impl $crate::protocol::jute::Encode for $name {
            fn encode(&self, to: &mut $crate::protocol::jute::Writer<'_>) {
                to.int((*self).into());
            }
        }

        impl<'a> $crate::protocol::jute::Decode<'a> for $name {
            const MIN_LEN: usize = 4;

            fn decode(
                from: &mut $crate::protocol::jute::Reader<'a>,
            ) -> Result<Self, $crate::protocol::jute::Malformed> {
                from.int().map(Self::from)
            }
        }
    };
}

/// Declares an enum of numbers that is complete: any other number is malformed.
macro_rules! closed_codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$code_meta:meta])* $code:ident = $number:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum $name { $($(#[$code_meta])* $code = $number,)* }

        impl $name {
            pub(crate) const NAMED: &'static [$name] = &[$($name::$code,)*];
        }

        impl $crate::protocol::jute::Encode for $name {
            fn encode(&self, to: &mut $crate::protocol::jute::Writer<'_>) {
                to.int(*self as i32);
            }
        }

        impl<'a> $crate::protocol::jute::Decode<'a> for $name {
            const MIN_LEN: usize = 4;

            fn decode(
                from: &mut $crate::protocol::jute::Reader<'a>,
            ) -> Result<Self, $crate::protocol::jute::Malformed> {
                let start = from.position();
                match from.int()? {
                    $($number => Ok($name::$code),)*
                    other => Err(from.malformed(start, $crate::protocol::jute::Problem::Value(other))),
                }
            }
        }
    };
}

pub(super) use {closed_codes, open_codes, record};
