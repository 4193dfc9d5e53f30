//! The messages and services of the API. `proto/omega/v1/` defines and describes them.

#![allow(missing_docs, reason = "generated: the definitions in proto/ have the comments")]
#![allow(
    unreachable_pub,
    reason = "generated: its modules are public whether they are used or not"
)]
#![allow(clippy::all, clippy::too_many_lines, reason = "generated: nobody edits it")]

include!("generated/omega.v1.rs");

/// Description of the API for gRPC tools: a serialized `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
