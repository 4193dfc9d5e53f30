//! Names of files, now and after a power cut.

use crate::random::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Number that identifies a file, whatever its name.
pub(super) type FileNumber = usize;

/// A change of names that is not durable yet, because its folder was not synced.
#[derive(Clone, Debug)]
enum Change {
    Add { path: PathBuf, file: FileNumber },
    Rename { to: PathBuf, file: FileNumber },
    Remove { path: PathBuf },
    Folder { path: PathBuf },
}

impl Change {
    /// The folder whose sync makes the change durable.
    fn folder(&self) -> &Path {
        parent(match self {
            Change::Add { path, .. } | Change::Remove { path } | Change::Folder { path } => path,
            Change::Rename { to, .. } => to,
        })
    }
}

/// The folder of a path; the empty path if the path has no folder.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The names of files, and the folders, at one time.
#[derive(Clone, Debug, Default)]
struct Tree {
    files: BTreeMap<PathBuf, FileNumber>,
    folders: BTreeSet<PathBuf>,
}

impl Tree {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Add { path, file } => {
                self.files.insert(path.clone(), *file);
            }
            Change::Remove { path } => {
                self.files.remove(path);
            }
            Change::Folder { path } => {
                self.folders.insert(path.clone());
            }
            Change::Rename { to, file } => {
                self.files.retain(|_, other| other != file);
                self.files.insert(to.clone(), *file);
            }
        }
    }

    fn has_folder(&self, folder: &Path) -> bool {
        folder.parent().is_none() || self.folders.contains(folder)
    }
}

/// The names on a disk: the present ones, the durable ones, and the changes in between. The outermost folder always
/// exists.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    present: Tree,
    safe: Tree,
    changes: Vec<Change>,
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<FileNumber> {
        self.present.files.get(path).copied()
    }

    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        self.present.has_folder(folder)
    }

    /// Every file, in the order of names.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, FileNumber)> {
        self.present.files.iter().map(|(path, file)| (path.as_path(), *file))
    }

    pub(super) fn add(&mut self, path: &Path, file: FileNumber) {
        self.change(Change::Add { path: path.to_owned(), file });
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(Change::Remove { path: path.to_owned() });
    }

    pub(super) fn rename(&mut self, to: &Path, file: FileNumber) {
        self.change(Change::Rename { to: to.to_owned(), file });
    }

    /// Creates a folder and its parents.
    pub(super) fn add_folder(&mut self, folder: &Path) {
        if !self.has_folder(folder) {
            self.add_folder(parent(folder));
            self.change(Change::Folder { path: folder.to_owned() });
        }
    }

    pub(super) fn sync(&mut self, folder: &Path) {
        let (safe, changes) = (&mut self.safe, &mut self.changes);
        changes.retain(|change| {
            let now = change.folder() == folder;
            if now {
                safe.apply(change);
            }
            !now
        });
    }

    /// Whether a crash would not change any name.
    pub(super) fn all_safe(&self) -> bool {
        self.changes.is_empty()
    }

    /// Names after a power cut, in which any of the unsynced changes may remain. If a folder is lost, its content is
    /// lost, too.
    pub(super) fn crash(&mut self, dice: &mut Dice) {
        for change in std::mem::take(&mut self.changes) {
            if dice.chance(50) {
                self.safe.apply(&change);
            }
        }
        let whole = |tree: &Tree, path: &Path| path.ancestors().skip(1).all(|f| tree.has_folder(f));
        let tree = self.safe.clone();
        self.safe.files.retain(|path, _| whole(&tree, path));
        self.safe.folders.retain(|path| whole(&tree, path));
        self.present = self.safe.clone();
    }

    fn change(&mut self, change: Change) {
        self.present.apply(&change);
        self.changes.push(change);
    }
}
