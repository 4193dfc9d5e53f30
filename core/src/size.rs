//! The size of a value: an upper bound of the bytes that the value has as a message of the API.
//!
//! A serialiser that writes nothing counts the bytes, so a new field is counted without new code here. Each part of a
//! value counts at least as many bytes as protobuf needs: two for a field's number, the varint of a number, and the
//! length of a nested value. The length of a nested value is counted twice, because a message may have one more level
//! of nesting than the type.

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use std::fmt::{self, Display};

/// Number of bytes for a field's number. Two bytes are enough for fields up to 2047, and no message has more.
const FIELD: usize = 2;

/// Number of bytes for a field's number and for a length below 2^28.
const NESTED: usize = FIELD + 4;

/// Maximum number of bytes of an encoded number. Negative numbers and 64-bit numbers can take this many.
const VARINT_MAX: usize = 10;

/// Returns an upper bound of a value's bytes as a message of the API.
///
/// The value must be of a type of this crate, or a sequence of such values. For a sequence, the bounds are added.
pub fn bytes_at_most<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut counter = Counter(0);
    match value.serialize(&mut counter) {
        Ok(()) => counter.0,
        // Serialising a value of this crate's types cannot fail. If it failed, the value would have to count as too
        // large.
        Err(Failed) => usize::MAX,
    }
}

/// A serialiser that counts bytes.
struct Counter(usize);

/// Error of a value that cannot be serialised.
#[derive(Debug)]
struct Failed;

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it cannot be counted")
    }
}

impl std::error::Error for Failed {}

impl ser::Error for Failed {
    fn custom<T: Display>(_: T) -> Failed {
        Failed
    }
}

type Counted = Result<(), Failed>;

impl Counter {
    fn add(&mut self, bytes: usize) -> Counted {
        self.0 = self.0.saturating_add(bytes);
        Ok(())
    }

    fn number(&mut self, value: u64) -> Counted {
        let bits = (u64::BITS - value.leading_zeros()).max(1) as usize;
        self.add(FIELD + bits.div_ceil(7))
    }

    /// Counts a signed number in the longer of protobuf's two encodings.
    fn signed(&mut self, value: i64) -> Counted {
        match u64::try_from(value) {
            Ok(value) => self.number(value.saturating_mul(2)),
            Err(_) => self.add(FIELD + VARINT_MAX),
        }
    }

    fn nested(&mut self) -> Result<&mut Counter, Failed> {
        self.add(2 * NESTED)?;
        Ok(self)
    }
}

impl ser::Serializer for &mut Counter {
    type Ok = ();
    type Error = Failed;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn serialize_bool(self, _: bool) -> Counted {
        self.add(FIELD + 1)
    }
    fn serialize_i8(self, value: i8) -> Counted {
        self.signed(value.into())
    }
    fn serialize_i16(self, value: i16) -> Counted {
        self.signed(value.into())
    }
    fn serialize_i32(self, value: i32) -> Counted {
        self.signed(value.into())
    }
    fn serialize_i64(self, value: i64) -> Counted {
        self.signed(value)
    }
    fn serialize_u8(self, value: u8) -> Counted {
        self.number(value.into())
    }
    fn serialize_u16(self, value: u16) -> Counted {
        self.number(value.into())
    }
    /// Counts the bytes of the largest 32-bit number, whatever the number is. So resizing a group does not change the
    /// size of its job.
    fn serialize_u32(self, _: u32) -> Counted {
        self.add(FIELD + 5)
    }
    fn serialize_u64(self, value: u64) -> Counted {
        self.number(value)
    }
    fn serialize_f32(self, _: f32) -> Counted {
        self.add(FIELD + VARINT_MAX)
    }
    fn serialize_f64(self, _: f64) -> Counted {
        self.add(FIELD + VARINT_MAX)
    }
    fn serialize_char(self, _: char) -> Counted {
        self.add(FIELD + VARINT_MAX)
    }
    fn serialize_str(self, text: &str) -> Counted {
        self.add(NESTED + text.len())
    }
    fn serialize_bytes(self, bytes: &[u8]) -> Counted {
        self.add(NESTED + bytes.len())
    }
    fn serialize_none(self) -> Counted {
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Counted {
        value.serialize(self.nested()?)
    }
    fn serialize_unit(self) -> Counted {
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Counted {
        self.nested().map(drop)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Counted {
        self.nested().map(drop)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Counted {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Counted {
        value.serialize(self.nested()?)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Failed> {
        self.nested()
    }
    fn serialize_tuple(self, _: usize) -> Result<Self, Failed> {
        self.nested()
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Failed> {
        self.nested()
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Failed> {
        self.nested()
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self, Failed> {
        self.nested()
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Failed> {
        self.nested()
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Failed> {
        self.nested()?.nested()
    }
}

/// Implements the serialisers of nested types. They count each part separately.
macro_rules! parts {
    ($($kind:ident $part:ident ($($name:ident)?)),*) => {$(
        impl $kind for &mut Counter {
            type Ok = ();
            type Error = Failed;

            fn $part<T: Serialize + ?Sized>(
                &mut self,
                $($name: &'static str,)?
                value: &T,
            ) -> Counted {
                value.serialize(&mut **self)
            }

            fn end(self) -> Counted {
                Ok(())
            }
        }
    )*};
}

parts!(
    SerializeSeq serialize_element (),
    SerializeTuple serialize_element (),
    SerializeTupleStruct serialize_field (),
    SerializeTupleVariant serialize_field (),
    SerializeStruct serialize_field (_name),
    SerializeStructVariant serialize_field (_name)
);

impl SerializeMap for &mut Counter {
    type Ok = ();
    type Error = Failed;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Counted {
        key.serialize(self.nested()?)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
        value.serialize(&mut **self)
    }

    fn end(self) -> Counted {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amounts, Job, Labels, TaskGroup};

    #[test]
    fn what_is_added_is_counted() {
        let mut job = Job::batch("job", TaskGroup::new(3, Amounts::new([1000, 1 << 30])));
        let mut before = bytes_at_most(&job);
        assert!(before < 500, "a small job is small: {before}");
        let mut grew = |job: &Job, by: usize| {
            let after = bytes_at_most(job);
            assert!((before + by..before + by + 100).contains(&after), "{before}, {by}, {after}");
            before = after;
        };
        job.groups[0].labels = Labels::new([("k".repeat(300), "v".repeat(400))]);
        grew(&job, 700);
        job.groups[0].images = vec!["i".repeat(512).into()];
        grew(&job, 512);
        job.groups[0].rules.machine = Some("m".repeat(99).into());
        grew(&job, 99);
        job.deadline_ms = Some(u64::MAX);
        grew(&job, 10);
    }
}
