//! A history in a file: what was appended is what is replayed, and what fails says so by name.

use crate::histories::seeds;
use omega_cellstate::Cell;
use omega_core::{Amounts, Command, Image, Job, JobId, Kinds, Machine, Requirement, TaskGroup};
use omega_store::{
    AppendError, CellId, CreateError, Journal, OpenError, Origin, ReplayError, SyncError,
};
use omega_tests::history;
use omega_tests::memory_disk::MemoryDisk;
use omega_tests::random::Dice;
use std::path::Path;

pub(crate) const CELL: CellId = CellId(7);

/// Where the file of a [`MemoryDisk`] is said to be.
pub(crate) fn here() -> &'static Path {
    Path::new("cell.journal")
}

pub(crate) fn origin(kinds: &Kinds) -> Origin {
    Origin { cell: CELL, kinds: kinds.clone() }
}

/// The hash of a cell after each number of these commands, from none to all.
pub(crate) fn hashes(kinds: &Kinds, commands: &[Command]) -> Vec<u64> {
    let mut cell = Cell::new(kinds.clone());
    let mut hashes = vec![cell.state_hash()];
    for command in commands {
        drop(cell.apply(command.clone()));
        hashes.push(cell.state_hash());
    }
    hashes
}

/// What a journal holds: its commands, and the hash of the cell that they make.
pub(crate) fn rebuilt(journal: &mut Journal) -> Result<(Vec<Command>, u64), ReplayError> {
    let mut cell = Cell::new(journal.origin().kinds.clone());
    let mut commands = Vec::new();
    journal.replay(|index, command| {
        commands.push(command.clone());
        assert_eq!(index, commands.len() as u64, "an index was skipped");
        drop(cell.apply(command));
    })?;
    Ok((commands, cell.state_hash()))
}

/// A disk with a journal of these commands, all synced.
pub(crate) fn recorded(kinds: &Kinds, commands: &[Command]) -> MemoryDisk {
    let disk = MemoryDisk::default();
    let mut journal = Journal::create_on(&disk, here(), &origin(kinds)).unwrap();
    journal.append(commands).unwrap();
    assert_eq!(journal.sync().unwrap(), commands.len() as u64);
    disk
}

fn name(name: &str) -> Command {
    Command::RegisterScheduler { name: name.into() }
}

#[test]
fn a_history_is_rebuilt_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds(60) {
        let path = folder.path().join(format!("{seed}.journal"));
        let (kinds, commands) = history::commands(seed, 120);
        let mut dice = Dice::new(seed);
        let mut journal = Journal::create(&path, &origin(&kinds)).unwrap();
        let mut rest = &commands[..];
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(rest.len().min(dice.below(40)));
            let start = journal.next_index();
            let range = journal.append(batch).unwrap();
            assert_eq!(range, start..start + batch.len() as u64);
            rest = others;
            if dice.chance(30) {
                assert_eq!(journal.sync().unwrap(), range.end - 1);
            }
            if dice.chance(30) {
                drop(journal);
                journal = Journal::open(&path, CELL).unwrap();
                assert_eq!((journal.bytes_cut(), journal.next_index()), (0, range.end));
            }
        }
        drop(journal);
        let mut journal = Journal::open(&path, CELL).unwrap();
        assert_eq!(journal.bytes(), std::fs::metadata(&path).unwrap().len());
        let (found, hash) = rebuilt(&mut journal).unwrap();
        assert!(found == commands, "seed {seed}: another history came back");
        assert_eq!(Some(&hash), hashes(&kinds, &commands).last(), "seed {seed}");
    }
}

#[test]
fn a_journal_that_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let kinds = Kinds::standard();
    assert!(matches!(Journal::open(&path, CELL), Err(OpenError::Missing(_))));
    let journal = Journal::create(&path, &origin(&kinds)).unwrap();
    assert!(matches!(Journal::open(&path, CELL), Err(OpenError::Locked(_))));
    drop(journal);
    assert!(matches!(Journal::create(&path, &origin(&kinds)), Err(CreateError::Exists(_))));
    let other = Journal::open(&path, CellId(8));
    assert!(matches!(other, Err(OpenError::OtherCell { found: CELL, wanted: CellId(8), .. })));
    assert_eq!(Journal::open(&path, CELL).unwrap().next_index(), 1);

    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    let error = Journal::open(&path, CELL).unwrap_err();
    assert!(matches!(error, OpenError::UnknownFormat { found: 9, .. }));
    assert!(error.to_string().contains("has format 9, this program knows 1"), "{error}");
    std::fs::write(&path, "a text that somebody wrote").unwrap();
    assert!(matches!(Journal::open(&path, CELL), Err(OpenError::NotAJournal(_))));
    std::fs::write(&path, "").unwrap();
    assert!(matches!(Journal::open(&path, CELL), Err(OpenError::HeaderIncomplete(_))));
}

#[test]
fn a_new_journal_is_safe_in_its_folder() {
    let disk = MemoryDisk::default();
    drop(Journal::create_on(&disk, here(), &origin(&Kinds::standard())).unwrap());
    assert!(disk.state().entry_safe);
    assert_eq!(disk.safe(), disk.bytes());
}

#[test]
fn what_is_replayed_at_open_is_safe() {
    let disk = recorded(&Kinds::standard(), &[]);
    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
    journal.append(&[name("written, never synced")]).unwrap();
    drop(journal);
    assert_ne!(disk.safe(), disk.bytes());
    drop(Journal::open_on(&disk, here(), CELL).unwrap());
    assert_eq!(disk.safe(), disk.bytes());
}

/// A disk that fills up anywhere within a batch.
#[test]
fn after_a_failed_write_the_journal_stops() {
    let kinds = Kinds::standard();
    let batch = [name("b"), name("c")];
    let whole = recorded(&kinds, &[name("a")]).bytes().len();
    let most = recorded(&kinds, &[name("a"), name("b"), name("c")]).bytes().len() - whole;
    for room in 0..most {
        let disk = recorded(&kinds, &[name("a")]);
        let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
        disk.state().room = Some(room);
        assert!(matches!(journal.append(&batch), Err(AppendError::Unknown(_))));
        disk.state().room = None;
        assert!(matches!(journal.append(&batch), Err(AppendError::Refused)));
        assert!(matches!(journal.sync(), Err(SyncError::Refused)));
        assert!(matches!(rebuilt(&mut journal), Err(ReplayError::Refused)));
        drop(journal);

        let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
        let (found, _) = rebuilt(&mut journal).unwrap();
        assert!(found == [name("a")] || found == [name("a"), name("b")], "room {room}: {found:?}");
        assert_eq!(journal.bytes() + journal.bytes_cut(), (whole + room) as u64);
        journal.append(&[name("d")]).unwrap();
        drop(journal);
        let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
        assert_eq!(rebuilt(&mut journal).unwrap().0.last(), Some(&name("d")));
    }
}

#[test]
fn after_a_failed_sync_the_journal_stops() {
    let disk = recorded(&Kinds::standard(), &[name("a")]);
    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
    journal.append(&[name("b")]).unwrap();
    disk.state().sync_fails = true;
    assert!(matches!(journal.sync(), Err(SyncError::Unknown(_))));
    // The disk would report success now; that proves nothing.
    assert!(matches!(journal.sync(), Err(SyncError::Refused)));
    assert!(matches!(journal.append(&[name("c")]), Err(AppendError::Refused)));
}

#[test]
fn a_command_that_is_too_large_leaves_no_trace() {
    let requirement = Requirement::equals("k", "v".repeat(5 << 20));
    let mut group = TaskGroup::new(1, Amounts::new([1]));
    let machines = omega_core::MachineSelector { labels: vec![requirement], names: Vec::new() };
    group.rules.affinity.required = Some(vec![machines]);
    let large = Command::SubmitJob(Job::batch("large", group));

    let disk = recorded(&Kinds::standard(), &[name("a")]);
    let before = disk.bytes();
    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
    let error = journal.append(&[name("b"), large]).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { position: 1, .. }), "{error}");
    assert_eq!(disk.bytes(), before);
    assert_eq!(journal.append(&[name("b")]).unwrap(), 2..3);
    assert_eq!(rebuilt(&mut journal).unwrap().0, [name("a"), name("b")]);
}

#[test]
fn an_empty_batch_is_nothing() {
    let disk = recorded(&Kinds::standard(), &[]);
    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
    assert_eq!(journal.append(&[]).unwrap(), 1..1);
    assert_eq!(journal.sync().unwrap(), 0);
    assert_eq!(rebuilt(&mut journal).unwrap().0, []);
}

#[test]
fn a_long_journal_is_read_in_pieces() {
    let machine = |i: usize| {
        let image = |n| Image { name: format!("image{n}").into(), bytes: n as u64 };
        let images: Box<[Image]> = (0..i % 700).map(image).collect();
        let machine = Machine { images, ..Machine::new(format!("m{i}"), Amounts::new([1])) };
        Command::RegisterMachine(machine)
    };
    let mut commands: Vec<Command> = (0..1500).map(machine).collect();
    commands.push(Command::KillJob { job: JobId(3) });
    let disk = recorded(&Kinds::standard(), &commands);
    assert!(disk.bytes().len() > 4 << 20);
    let mut journal = Journal::open_on(&disk, here(), CELL).unwrap();
    assert!(rebuilt(&mut journal).unwrap().0 == commands);
}
