//! Messages of the API, as a caller may send them: decoded from protobuf, and converted as the service does.

use super::commands::commands;
use omega_client::proto;
use omega_core::{Command, Job, Machine, Transaction};
use prost::Message;

/// The first byte of an input, which is the kind of the message that follows.
const JOB: u8 = 0;
const MACHINE: u8 = 1;
const TRANSACTION: u8 = 2;

/// Messages that are accepted.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    commands().iter().filter_map(message).collect()
}

fn message(command: &Command) -> Option<Vec<u8>> {
    let (kind, content) = match command {
        Command::SubmitJob(job) => (JOB, proto::Job::from(job).encode_to_vec()),
        Command::RegisterMachine(machine) => {
            (MACHINE, proto::Machine::from(machine).encode_to_vec())
        }
        Command::Commit(txn) => (TRANSACTION, proto::CommitRequest::from(txn).encode_to_vec()),
        _ => return None,
    };
    Some([&[kind], content.as_slice()].concat())
}

/// Decodes a message. If it is accepted, encodes and decodes it again.
pub(super) fn check(input: &[u8]) -> bool {
    let Some((kind, content)) = input.split_first() else { return false };
    match kind % 3 {
        JOB => comes_back::<proto::Job, Job>(content),
        MACHINE => comes_back::<proto::Machine, Machine>(content),
        _ => comes_back::<proto::CommitRequest, Transaction>(content),
    }
}

fn comes_back<Wire, Ours>(content: &[u8]) -> bool
where
    Wire: Message + Default + for<'a> From<&'a Ours>,
    Ours: TryFrom<Wire> + PartialEq + std::fmt::Debug,
{
    let Ok(wire) = Wire::decode(content) else { return false };
    let Ok(ours) = Ours::try_from(wire) else { return false };
    let bytes = Wire::from(&ours).encode_to_vec();
    let again = Wire::decode(bytes.as_slice()).expect("a written message is read");
    assert_eq!(Ours::try_from(again).ok().as_ref(), Some(&ours));
    true
}
