//! What becomes of a journal that was cut or damaged anywhere: a prefix of the history, or an error
//! with a name; never another history.

use crate::histories::seeds;
use crate::journal::{CELL, hashes, here, origin, rebuilt, recorded};
use omega_core::{Command, Kinds};
use omega_store::{Damage, Journal, OpenError, ReplayError};
use omega_tests::history;
use omega_tests::memory_disk::MemoryDisk;
use omega_tests::random::Dice;

/// A small history in a journal, with where its records end.
struct Case {
    kinds: Kinds,
    commands: Vec<Command>,
    hashes: Vec<u64>,
    bytes: Vec<u8>,
    /// Where the header ends, then each record.
    ends: Vec<usize>,
}

impl Case {
    fn new(seed: u64, length: usize) -> Case {
        let (kinds, commands) = history::commands(seed, length);
        let size = |count| recorded(&kinds, &commands[..count]).bytes().len();
        Case {
            ends: (0..=length).map(size).collect(),
            bytes: recorded(&kinds, &commands).bytes(),
            hashes: hashes(&kinds, &commands),
            kinds,
            commands,
        }
    }

    fn damaged(&self, change: impl FnOnce(&mut Vec<u8>)) -> MemoryDisk {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        MemoryDisk::holding(bytes)
    }

    /// Opens what is on a disk. The answer is how many commands came back; they are the first ones
    /// and make the right cell, or the test fails.
    fn prefix(&self, disk: &MemoryDisk, what: &str) -> Result<usize, OpenError> {
        let before = disk.bytes().len() as u64;
        let mut journal = Journal::open_on(disk, here(), CELL)?;
        assert_eq!(journal.bytes() + journal.bytes_cut(), before, "{what}");
        assert_eq!(journal.origin(), &origin(&self.kinds), "{what}");
        let (found, hash) = rebuilt(&mut journal).expect("what was opened can be replayed");
        assert!(found == self.commands[..found.len()], "{what}: another history");
        assert_eq!(hash, self.hashes[found.len()], "{what}: another cell");
        Ok(found.len())
    }
}

#[test]
fn a_journal_cut_at_any_byte_holds_a_prefix() {
    for seed in seeds(8) {
        let case = Case::new(seed, 25);
        for length in 0..case.bytes.len() {
            let what = format!("seed {seed}, cut to {length} bytes");
            let disk = case.damaged(|bytes| bytes.truncate(length));
            match case.prefix(&disk, &what) {
                Err(OpenError::HeaderIncomplete(_)) => assert!(length < case.ends[0], "{what}"),
                Err(error) => panic!("{what}: {error}"),
                Ok(count) => {
                    let whole = case.ends.iter().filter(|end| **end <= length).count() - 1;
                    assert_eq!(count, whole, "{what}");
                    // And it goes on from there.
                    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
                    assert_eq!(journal.bytes_cut(), 0, "{what}");
                    journal.append(&case.commands[count..]).unwrap();
                    assert!(disk.bytes() == case.bytes, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_bit_that_flips_is_never_another_history() {
    for seed in seeds(3) {
        let case = Case::new(seed, 12);
        let last = case.ends[case.ends.len() - 2];
        for bit in 0..case.bytes.len() * 8 {
            let what = format!("seed {seed}, bit {bit}");
            let disk = case.damaged(|bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            match case.prefix(&disk, &what) {
                // Only the last record may be taken for a torn one.
                Ok(count) => {
                    assert!(bit / 8 >= last && count == case.commands.len() - 1, "{what}");
                }
                Err(OpenError::Corrupt(corruption)) => {
                    let record = case.ends.iter().filter(|end| **end <= bit / 8).count();
                    assert_eq!(corruption.index, record as u64, "{what}");
                    assert_eq!(corruption.offset, case.ends[record - 1] as u64, "{what}");
                    assert!(bit / 8 < last, "{what}");
                }
                Err(
                    OpenError::NotAJournal(_)
                    | OpenError::UnknownFormat { .. }
                    | OpenError::HeaderCorrupt(_)
                    | OpenError::HeaderIncomplete(_),
                ) => assert!(bit / 8 < case.ends[0], "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

#[test]
fn random_damage_is_never_another_history() {
    for seed in seeds(2000) {
        let mut dice = Dice::new(seed);
        let case = Case::new(seed % 20, 10);
        let disk = case.damaged(|bytes| {
            for _ in 0..1 + dice.below(3) {
                let from = dice.below(bytes.len());
                let to = bytes.len().min(from + 1 + dice.below(60));
                match dice.below(5) {
                    0 => bytes[from..to].fill(0),
                    1 => drop(bytes.drain(from..to)),
                    2 => bytes.extend_from_within(from..to),
                    3 => bytes.copy_within(from..to, 0),
                    _ => bytes[from..to].iter_mut().for_each(|byte| *byte = dice.below(256) as u8),
                }
            }
        });
        // Whatever it is: `prefix` fails the test if it is another history.
        drop(case.prefix(&disk, &format!("seed {seed}")));
    }
}

/// The end that a file system leaves after a crash: longer, but without the bytes.
#[test]
fn an_end_of_zeros_or_rubbish_is_cut() {
    let case = Case::new(1, 10);
    for count in [1, 15, 16, 17, 5000] {
        let zeros = case.damaged(|bytes| bytes.extend(vec![0; count]));
        assert_eq!(case.prefix(&zeros, "zeros").unwrap(), 10);
        let mut dice = Dice::new(count as u64);
        let rubbish: Vec<u8> = (0..count).map(|_| dice.below(256) as u8).collect();
        let rubbish = case.damaged(|bytes| bytes.extend(rubbish));
        assert_eq!(case.prefix(&rubbish, "rubbish").unwrap(), 10);
    }
}

#[test]
fn records_do_not_change_places() {
    let case = Case::new(2, 6);
    let records: Vec<&[u8]> = case.ends.windows(2).map(|at| &case.bytes[at[0]..at[1]]).collect();
    let arranged = |order: &[usize]| {
        let header = case.bytes[..case.ends[0]].to_vec();
        let bytes = order.iter().fold(header, |all, i| [&all, records[*i]].concat());
        case.prefix(&MemoryDisk::holding(bytes), &format!("{order:?}"))
    };
    assert_eq!(arranged(&[0, 1, 2, 3, 4, 5]).unwrap(), 6);
    // One is missing, doubled, or two have changed places; also at the very end.
    for order in [&[1, 2, 3][..], &[0, 2, 3], &[0, 0, 1], &[0, 1, 1], &[0, 2], &[1, 0]] {
        let error = arranged(order).unwrap_err();
        let OpenError::Corrupt(corruption) = &error else { panic!("{order:?}: {error}") };
        assert!(matches!(corruption.damage, Damage::Index(_)), "{order:?}: {error}");
        assert!(error.to_string().contains("stands in its place"), "{error}");
    }
}

/// The same commands, but of another cell: its records are no records here.
#[test]
fn records_of_another_journal_do_not_count() {
    let case = Case::new(3, 5);
    let (kinds, commands) = history::commands(4, 5);
    let other = recorded(&kinds, &commands).bytes();
    let header = case.bytes[..case.ends[0]].to_vec();
    let start = recorded(&kinds, &[]).bytes().len();
    let mixed = MemoryDisk::holding([&header, &other[start..]].concat());
    assert_eq!(case.prefix(&mixed, "mixed").unwrap(), 0);
}

#[test]
fn damage_after_the_opening_is_found_by_the_replay() {
    let case = Case::new(5, 10);
    let disk = MemoryDisk::holding(case.bytes.clone());
    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
    if let Some(bytes) = &mut disk.state().bytes {
        bytes[case.ends[4] + 20] ^= 1;
    }
    let error = rebuilt(&mut journal).unwrap_err();
    assert!(matches!(&error, ReplayError::Corrupt(at) if at.index == 5), "{error}");
}

/// A power cut at any moment: at least what was synced is there, and what is there is a prefix.
#[test]
fn what_was_synced_survives_a_power_cut() {
    for seed in seeds(300) {
        let mut dice = Dice::new(seed);
        let case = Case::new(seed % 20, 30);
        let disk = MemoryDisk::default();
        let mut journal = Journal::create_on(&disk, here(), &origin(&case.kinds)).unwrap();
        let stop = dice.below(case.commands.len());
        let mut synced = 0;
        for command in &case.commands[..stop] {
            journal.append(std::slice::from_ref(command)).unwrap();
            if dice.chance(25) {
                synced = journal.sync().unwrap() as usize;
            }
        }
        drop(journal);
        let (safe, all) = (disk.safe().len(), disk.bytes());
        let kept = safe + dice.below(all.len() - safe + 1);
        let after = MemoryDisk::holding(all[..kept].to_vec());
        let count = case.prefix(&after, &format!("seed {seed}")).unwrap();
        assert!((synced..=stop).contains(&count), "seed {seed}: {count} of {synced} synced");
    }
}
