//! Random commands, and their encoding as a leader writes them to its log.

use crate::history;
use omega_core::Command;
use omega_store::codec;

/// The commands of a few random histories.
pub(crate) fn commands() -> Vec<Command> {
    (0..20).flat_map(|seed| history::commands(seed, 40).1).collect()
}

pub(super) fn encoded(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode(command, &mut bytes).expect("a random command is small");
    bytes
}

/// An entry as a leader would write it.
pub(crate) fn entry(commands: &[Command]) -> Vec<u8> {
    let mut bytes = vec![codec::VERSION];
    bytes.extend([0; 16]);
    commands.iter().for_each(|command| bytes.extend(&encoded(command)[1..]));
    bytes
}
