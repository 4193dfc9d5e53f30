//! Mutated profile files: lines and numbers are moved, repeated and made extreme.

use crate::random::Dice;
use omega_core::Kinds;
use omega_schedulers::config::{Profiles, Registry};

const EXAMPLE: &str = include_str!("../../../schedulers/examples/profiles.toml");

/// Extreme values of settings.
const VALUES: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "\"\"",
    "true",
    "[]",
    "{}",
    "[[[[]]]]",
    "\"cpu\"",
];

/// The example file, and files with each of its profiles alone.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let alone = EXAMPLE.split("[[profile]]").skip(1).map(|rest| format!("[[profile]]{rest}"));
    std::iter::once(EXAMPLE.to_owned()).chain(alone).map(String::into_bytes).collect()
}

/// Changes some lines and values of a file.
pub(super) fn mutate(bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + dice.below(3) {
        let at = dice.below(lines.len());
        let other = dice.below(lines.len());
        match dice.below(5) {
            0 => lines.swap(at, other),
            1 => lines.insert(at, lines[other].clone()),
            2 if lines.len() > 1 => drop(lines.remove(at)),
            _ => {
                if let Some((key, _)) = lines[at].split_once('=') {
                    lines[at] = format!("{key}= {}", dice.pick(&VALUES));
                }
            }
        }
    }
    lines.join("\n").into_bytes()
}

/// Reads a file. If it is accepted, binds its profiles to a cell.
pub(super) fn check(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    match Profiles::parse(text, &Registry::built_in()) {
        // A profile that does not fit the cell is an error, not a panic.
        Ok(profiles) => profiles.check(&Kinds::standard()).is_ok(),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
