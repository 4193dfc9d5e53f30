//! Compatibility: files of earlier versions are readable, and nothing is removed from the API.
//!
//! `tests/golden/data/` has, for each set of format versions that this program reads, the directory of a replica, a
//! backup of its cell, and the expected state of both. After a change of a format, `OMEGA_BLESS=1` creates a new
//! folder. An existing folder is never rewritten, because it represents the disks of users who have not upgraded yet.
//!
//! `tests/golden/api.txt` has every message, field, value and call of the API. Lines are only added.

use omega_client::proto::DESCRIPTORS;
use omega_core::{Command, Version};
use omega_store::directory::{self, Directory, EngineKind, Expected, Identity};
use omega_store::history::{self, ReplayOptions, ReplayScope};
use omega_store::log::{self, ReplicaId};
use omega_store::membership::Membership;
use omega_store::replica::{Network, ReplicatedCell, Running, bootstrap, start};
use omega_store::snapshot::{self, read_backup, write_backup};
use omega_store::{CellId, Origin, ReadOnlyDisk, RealDisk, codec};
use omega_tests::durable::{SEGMENTS, settings};
use omega_tests::history::commands;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const ME: ReplicaId = ReplicaId(1);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn is_blessed() -> bool {
    std::env::var_os("OMEGA_BLESS").is_some()
}

/// The present formats, as the name of the folder of their golden files.
fn formats() -> String {
    format!(
        "directory{}-log{}-snapshot{}-command{}",
        directory::FORMAT,
        log::segment::FORMAT,
        snapshot::FORMAT,
        codec::VERSION
    )
}

/// State of a directory: its version, and the hash of its cell.
fn state(dir: &Path, to: Option<Version>) -> (Version, u64) {
    let options = ReplayOptions { to, scope: ReplayScope::All, ..ReplayOptions::default() };
    let replay = history::open(dir).unwrap().replay(&options).unwrap();
    replay.cell().audit().unwrap();
    (replay.cell().version(), replay.cell().state_hash())
}

fn told((version, hash): (Version, u64)) -> String {
    format!("version {}\nstate hash {hash:016x}\n", version.0)
}

/// Runs the replica of a directory, and some work on it.
fn run(directory: Directory, work: impl FnOnce(&ReplicatedCell)) {
    let started = start(directory.with_options(SEGMENTS), settings()).unwrap();
    let running = Running::start(started, Network::default().port(ME), Duration::from_millis(1));
    work(&ReplicatedCell::new(&running));
    running.end();
}

/// Writes a random history to a disk: snapshots, segments before and after them, and a backup.
fn make(place: &Path) {
    let (kinds, commands) = commands(5, 160);
    let origin = Origin { cell: CellId(0xCE11), kinds };
    let identity = Identity { origin, replica: ME, engine: EngineKind::Segment };
    let dir = place.join("replica");
    let directory = Directory::create_with(Arc::new(RealDisk), &dir, identity, SEGMENTS).unwrap();
    bootstrap(&directory, &Membership::initial([ME])).unwrap();
    run(directory, |cell| {
        // The commands are in several entries, so that snapshots are taken in between.
        for some in commands.chunks(7) {
            drop(cell.apply_all(some.to_vec()));
        }
        // A registration begins a new version, so that the last version has exactly one state.
        cell.apply(Command::RegisterScheduler { name: "the last one".into() }).unwrap();
    });
    let options = ReplayOptions { scope: ReplayScope::All, ..ReplayOptions::default() };
    let cell = history::open(&dir).unwrap().replay(&options).unwrap().into_cell();
    let mut file = Vec::new();
    write_backup(CellId(0xCE11), &cell.snapshot_state(), |offset, bytes| {
        let at = offset as usize;
        file.resize(file.len().max(at + bytes.len()), 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    std::fs::write(place.join("backup"), file).unwrap();
    std::fs::write(place.join("state.txt"), told((cell.version(), cell.state_hash()))).unwrap();
}

/// Copies a directory, so that the copy may be changed.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(path, to.join(name)).unwrap();
        }
    }
}

#[test]
fn directories_and_backups_of_every_format_lead_to_the_same_state() {
    let own = golden("data").join(formats());
    if !own.exists() && is_blessed() {
        let unfinished = tempfile::tempdir().unwrap();
        make(unfinished.path());
        copy(unfinished.path(), &own);
    }
    assert!(own.exists(), "{}: a new format: OMEGA_BLESS=1 makes its files", own.display());
    for entry in std::fs::read_dir(golden("data")).unwrap() {
        let place = entry.unwrap().path();
        let expected = std::fs::read_to_string(place.join("state.txt")).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("replica");
        copy(&place.join("replica"), &dir);
        let before = state(&dir, None);
        assert_eq!(told(before), expected, "{}: replayed", place.display());
        let backup = read_backup(&ReadOnlyDisk::default(), &place.join("backup")).unwrap();
        let restored = (backup.cell.version(), backup.cell.state_hash());
        assert_eq!(told(restored), expected, "{}: its backup", place.display());
        // A replica continues from the directory.
        let opened = Directory::open(Arc::new(RealDisk), &dir, Expected::default()).unwrap();
        run(opened, |cell| {
            let after = cell.apply(Command::RegisterScheduler { name: "after it".into() });
            drop(after.unwrap());
        });
        assert_eq!(told(state(&dir, Some(before.0))), expected, "{}: gone on", place.display());
        // The leader first writes a command that sets the time, which may start a new version.
        assert!(state(&dir, None).0 > before.0, "{}", place.display());
    }
}

/// Type of a field, as in its declaration.
fn type_of(field: &FieldDescriptorProto) -> String {
    let label = if field.label() == Label::Repeated { "repeated " } else { "" };
    let plain = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    let one_of = match (field.oneof_index, field.proto3_optional()) {
        (Some(_), false) => " in a oneof",
        (Some(_), true) => " optional",
        (None, _) => "",
    };
    format!("{label}{plain}{one_of}")
}

fn message_lines(within: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{within}.{}", message.name());
    lines.insert(format!("message {name}"));
    for field in &message.field {
        let (of, number) = (field.name(), field.number());
        lines.insert(format!("field {name}.{of} = {number}: {}", type_of(field)));
    }
    message.nested_type.iter().for_each(|inner| message_lines(&name, inner, lines));
    message.enum_type.iter().for_each(|inner| enum_lines(&name, inner, lines));
}

fn enum_lines(within: &str, one: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{within}.{}", one.name());
    for value in &one.value {
        lines.insert(format!("value {name}.{} = {}", value.name(), value.number()));
    }
}

/// The elements of the API, with one line for each.
fn api() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let mut lines = BTreeSet::new();
    for file in &set.file {
        file.message_type.iter().for_each(|one| message_lines(file.package(), one, &mut lines));
        file.enum_type.iter().for_each(|one| enum_lines(file.package(), one, &mut lines));
        for service in &file.service {
            for call in &service.method {
                let stream = |is: bool| if is { "stream " } else { "" };
                lines.insert(format!(
                    "call {}.{}/{}: {}{} -> {}{}",
                    file.package(),
                    service.name(),
                    call.name(),
                    stream(call.client_streaming()),
                    call.input_type().trim_start_matches('.'),
                    stream(call.server_streaming()),
                    call.output_type().trim_start_matches('.'),
                ));
            }
        }
    }
    lines
}

#[test]
fn the_api_only_grows() {
    let file = golden("api.txt");
    let promised = std::fs::read_to_string(&file).unwrap_or_default();
    let promised: BTreeSet<String> = promised.lines().map(str::to_owned).collect();
    let now = api();
    assert!(now.len() > 500, "the definitions were found: {}", now.len());
    let gone: Vec<&String> = promised.difference(&now).collect();
    assert!(
        gone.is_empty(),
        "clients rely on this, so it must stay as it was; add something new beside it: {gone:#?}"
    );
    let new: Vec<&String> = now.difference(&promised).collect();
    if is_blessed() {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, text).unwrap();
        return;
    }
    assert!(new.is_empty(), "new, and from now on a promise: OMEGA_BLESS=1 writes it: {new:#?}");
}
