//! The size of a request in memory, estimated while its bytes arrive, before it is decoded.
//!
//! An empty message takes two bytes in a request, and its decoded form may take more than a thousand. So the bytes of a
//! request do not bound its memory. The scan below follows the nested messages of a request by the descriptors of the
//! API, and adds the size of each.

use omega_client::proto::DESCRIPTORS;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type as FieldType};
use prost_types::{DescriptorProto, FileDescriptorSet};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Assumed size of a field of a message in memory.
const FIELD_BYTES: usize = 48;

/// Assumed size of an empty text in memory.
const TEXT_BYTES: usize = 24;

/// Assumed bytes in memory for each byte after a form of encoding that the API does not use.
const UNKNOWN_BYTES: usize = 512;

/// Maximum depth of nested messages. The decoder rejects deeper ones.
const DEPTH_MAX: usize = 100;

static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
    Types::of(&set)
});

/// The message types of the API.
#[derive(Debug, Default)]
struct Types {
    list: Vec<Type>,
    /// The request type of each method, by its path.
    requests: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Type {
    bytes: usize,
    fields: HashMap<u64, Field>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    /// A message of the type with this position.
    Message(usize),
    /// A list of numbers, which is encoded as one block.
    Numbers,
}

impl Types {
    fn of(set: &FileDescriptorSet) -> Types {
        let mut named = Vec::new();
        for file in &set.file {
            file.message_type.iter().for_each(|one| collect(file.package(), one, &mut named));
        }
        let positions: HashMap<String, usize> =
            named.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        let list = named.iter().map(|(_, message)| Type::of(message, &positions)).collect();
        let mut requests = HashMap::new();
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("{}.{}/{}", file.package(), service.name(), method.name());
                    let at = positions.get(method.input_type());
                    requests.extend(at.map(|at| (path, *at)));
                }
            }
        }
        Types { list, requests }
    }
}

/// Adds a message type and the types within it, with their full names.
fn collect<'d>(
    package: &str,
    message: &'d DescriptorProto,
    into: &mut Vec<(String, &'d DescriptorProto)>,
) {
    let name = format!(".{}.{}", package.trim_start_matches('.'), message.name());
    message.nested_type.iter().for_each(|nested| collect(&name, nested, into));
    into.push((name, message));
}

impl Type {
    fn of(message: &DescriptorProto, positions: &HashMap<String, usize>) -> Type {
        let field = |field: &prost_types::FieldDescriptorProto| {
            let of_type = match field.r#type() {
                FieldType::Message => Field::Message(*positions.get(field.type_name())?),
                FieldType::String | FieldType::Bytes => return None,
                _ if field.label() == Label::Repeated => Field::Numbers,
                _ => return None,
            };
            Some((u64::try_from(field.number()).ok()?, of_type))
        };
        Type {
            bytes: FIELD_BYTES * message.field.len().max(1),
            fields: message.field.iter().filter_map(field).collect(),
        }
    }
}

/// The scan of a request's bytes. It accepts them in parts of any length.
#[derive(Debug)]
pub(crate) struct Weight {
    /// Type of the request; `None` if the API has no such method, and the request is not scanned.
    request: Option<usize>,
    open: Vec<Open>,
    /// Number of bytes of the present request that were scanned.
    at: u64,
    part: Part,
    /// The present number, and the number of its bits.
    number: u64,
    bits: u32,
    is_unknown: bool,
    /// Bytes in memory of all requests so far.
    bytes: usize,
}

/// A message that has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    of_type: usize,
    end: u64,
}

/// The part of the encoding that follows.
#[derive(Clone, Copy, Debug)]
enum Part {
    Tag,
    Number,
    Length(Option<Field>),
    Skipped(u64),
}

impl Weight {
    /// The scan of the requests of a method, such as `omega.v1.JobService/SubmitJob`.
    pub(crate) fn of(method: &str) -> Weight {
        let request = TYPES.requests.get(method).copied();
        let (open, part) = (Vec::new(), Part::Tag);
        Weight { request, open, at: 0, part, number: 0, bits: 0, is_unknown: false, bytes: 0 }
    }

    /// Estimated bytes in memory of all requests so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a request of this length.
    pub(crate) fn begin(&mut self, length: usize) {
        let Some(of_type) = self.request else { return };
        self.open.clear();
        (self.at, self.part, self.number, self.bits) = (0, Part::Tag, 0, 0);
        self.is_unknown = false;
        self.enter(of_type, length as u64);
    }

    /// Scans the next bytes of a request.
    pub(crate) fn feed(&mut self, mut data: &[u8]) {
        if self.request.is_none() {
            return;
        }
        while let [byte, rest @ ..] = data {
            if self.is_unknown {
                self.bytes = self.bytes.saturating_add(data.len().saturating_mul(UNKNOWN_BYTES));
                return;
            }
            if let Part::Skipped(left) = self.part {
                let taken = left.min(data.len() as u64);
                self.at += taken;
                self.part = if taken == left { Part::Tag } else { Part::Skipped(left - taken) };
                data = &data[taken as usize..];
                self.leave();
                continue;
            }
            data = rest;
            self.at += 1;
            if self.bits < 64 {
                self.number |= u64::from(byte & 0x7f) << self.bits;
            }
            self.bits += 7;
            if byte & 0x80 == 0 {
                let number = std::mem::take(&mut self.number);
                self.bits = 0;
                self.next(number);
                self.leave();
            } else if self.bits > 63 {
                self.is_unknown = true;
            }
        }
    }

    /// Handles a complete number.
    fn next(&mut self, number: u64) {
        self.part = match self.part {
            Part::Tag => {
                let of_type = self.open.last().map(|open| &TYPES.list[open.of_type]);
                let field = of_type.and_then(|of_type| of_type.fields.get(&(number >> 3)));
                match number & 7 {
                    0 => Part::Number,
                    1 => Part::Skipped(8),
                    2 => Part::Length(field.copied()),
                    5 => Part::Skipped(4),
                    _ => {
                        self.is_unknown = true;
                        Part::Tag
                    }
                }
            }
            Part::Number => {
                self.bytes = self.bytes.saturating_add(8);
                Part::Tag
            }
            Part::Length(Some(Field::Message(of_type))) => {
                self.enter(of_type, number);
                Part::Tag
            }
            Part::Length(field) => {
                let length = usize::try_from(number).unwrap_or(usize::MAX);
                let in_memory = match field {
                    Some(_) => length.saturating_mul(8),
                    None => length.saturating_add(TEXT_BYTES),
                };
                self.bytes = self.bytes.saturating_add(in_memory);
                if number == 0 { Part::Tag } else { Part::Skipped(number) }
            }
            Part::Skipped(_) => Part::Tag,
        };
    }

    fn enter(&mut self, of_type: usize, length: u64) {
        let end = self.at.saturating_add(length);
        self.bytes = self.bytes.saturating_add(TYPES.list[of_type].bytes);
        let is_within = self.open.last().is_none_or(|outer| end <= outer.end);
        self.is_unknown |= !is_within || self.open.len() >= DEPTH_MAX;
        self.open.push(Open { of_type, end });
    }

    /// Leaves the messages that end here.
    fn leave(&mut self) {
        while matches!(self.part, Part::Tag)
            && self.open.last().is_some_and(|open| open.end <= self.at)
        {
            self.open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_client::proto;
    use proptest::prelude::*;

    const SUBMIT: &str = "omega.v1.JobService/SubmitJob";

    fn bytes_of(method: &str, message: &[u8], part: usize) -> usize {
        let mut weight = Weight::of(method);
        weight.begin(message.len());
        message.chunks(part).for_each(|part| weight.feed(part));
        weight.bytes()
    }

    fn job(groups: Vec<proto::TaskGroup>) -> Vec<u8> {
        let job = proto::Job { name: "web".to_owned(), groups, ..Default::default() };
        proto::SubmitJobRequest { job: Some(job) }.encode_to_vec()
    }

    #[test]
    fn empty_messages_have_their_size_in_memory() {
        let one = bytes_of(SUBMIT, &job(vec![proto::TaskGroup::default()]), 9);
        let many = job(vec![proto::TaskGroup::default(); 10_001]);
        let more = (bytes_of(SUBMIT, &many, 1000) - one) / 10_000;
        let real = size_of::<proto::TaskGroup>();
        assert!((real..=3 * real).contains(&more), "{more} for {real}");
        assert_eq!(bytes_of("omega.v1.JobService/None", &many, 1000), 0);
    }

    #[test]
    fn texts_and_numbers_have_about_their_length() {
        let label = proto::Label { key: "k".repeat(1000), value: "v".repeat(1_000_000) };
        let group = proto::TaskGroup { labels: vec![label], ..Default::default() };
        let bytes = bytes_of(SUBMIT, &job(vec![group]), 100);
        assert!((1_001_000..1_010_000).contains(&bytes), "{bytes}");
        let claims = proto::CommitRequest { claim_jobs: vec![1; 10_000], ..Default::default() };
        let bytes = bytes_of("omega.v1.SchedulingService/Commit", &claims.encode_to_vec(), 100);
        assert!((80_000..90_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn bytes_after_an_unknown_encoding_count_in_full() {
        // The start of a group, which the decoder skips for unknown fields.
        let mut message = vec![0xfb, 0x07, 0xfc, 0x07];
        message.extend([0; 1000]);
        assert!(bytes_of(SUBMIT, &message, 100) > 500_000);
    }

    proptest! {
        /// Any bytes are scanned, with the same result however they are cut.
        #[test]
        fn all_cuts_give_the_same(message in prop::collection::vec(any::<u8>(), 0..300), part in 1..50_usize) {
            prop_assert_eq!(bytes_of(SUBMIT, &message, part), bytes_of(SUBMIT, &message, 1000));
        }
    }
}
