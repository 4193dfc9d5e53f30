//! Third-party stores used as a log: a B+tree, and an LSM tree with separate values.

use super::subject::Subject;
use fjall::{KeyspaceCreateOptions, KvSeparationOptions, PersistMode};
use omega_store::log::Batch;
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::{Path, PathBuf};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// A B+tree.
pub(super) struct Redb {
    database: Database,
    path: PathBuf,
    bounds: (u64, u64),
}

impl Redb {
    pub(super) fn create(folder: &Path) -> Redb {
        let path = folder.join("redb");
        let database = Database::create(&path).expect("the folder is empty");
        Redb { database, path, bounds: (1, 1) }
    }
}

impl Subject for Redb {
    fn append(&mut self, batch: &Batch) {
        let write = self.database.begin_write().expect("the disk works");
        {
            let mut table = write.open_table(TABLE).expect("the disk works");
            for entry in &batch.entries {
                table.insert(entry.position.index.0, &*entry.data).expect("the disk works");
                self.bounds.1 = entry.position.index.0 + 1;
            }
        }
        write.commit().expect("the disk works");
    }

    fn read(&mut self) -> u64 {
        let read = self.database.begin_read().expect("the disk works");
        let table = read.open_table(TABLE).expect("the table was made");
        let copy = |data: &[u8]| drop(std::hint::black_box(data.to_vec()));
        let range = table.range(self.bounds.0..).expect("the disk works");
        range.inspect(|found| copy(found.as_ref().expect("the disk works").1.value())).count()
            as u64
    }

    fn forget(&mut self, count: u64) {
        let write = self.database.begin_write().expect("the disk works");
        {
            let mut table = write.open_table(TABLE).expect("the disk works");
            let end = self.bounds.0 + count;
            table.retain_in(..end, |_, _| false).expect("the disk works");
            self.bounds.0 = end;
        }
        write.commit().expect("the disk works");
    }

    fn held(&self) -> u64 {
        self.bounds.1 - self.bounds.0
    }

    fn next(&self) -> u64 {
        self.bounds.1
    }

    fn bytes_on_disk(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |data| data.len())
    }
}

/// An LSM tree.
pub(super) struct Fjall {
    database: fjall::Database,
    log: fjall::Keyspace,
    bounds: (u64, u64),
}

impl Fjall {
    pub(super) fn create(folder: &Path) -> Fjall {
        let database = fjall::Database::builder(folder.join("fjall")).open();
        let database = database.expect("the folder is empty");
        let options = || {
            KeyspaceCreateOptions::default()
                .with_kv_separation(Some(KvSeparationOptions::default()))
        };
        let log = database.keyspace("log", options).expect("the disk works");
        Fjall { database, log, bounds: (1, 1) }
    }
}

impl Subject for Fjall {
    fn append(&mut self, batch: &Batch) {
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncData));
        for entry in &batch.entries {
            let key = entry.position.index.0.to_be_bytes();
            writes.insert(&self.log, key, &*entry.data);
            self.bounds.1 = entry.position.index.0 + 1;
        }
        writes.commit().expect("the disk works");
    }

    fn read(&mut self) -> u64 {
        let range = self.log.range(self.bounds.0.to_be_bytes()..);
        let value = |found: fjall::Guard| found.value().expect("the disk works");
        range.map(|found| drop(std::hint::black_box(value(found).to_vec()))).count() as u64
    }

    fn forget(&mut self, count: u64) {
        let end = self.bounds.0 + count;
        let mut writes = self.database.batch().durability(Some(PersistMode::SyncData));
        for index in self.bounds.0..end {
            writes.remove(&self.log, index.to_be_bytes());
        }
        writes.commit().expect("the disk works");
        self.bounds.0 = end;
    }

    fn held(&self) -> u64 {
        self.bounds.1 - self.bounds.0
    }

    fn next(&self) -> u64 {
        self.bounds.1
    }

    fn bytes_on_disk(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}
