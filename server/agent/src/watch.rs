//! The kernel's notices about tasks: that a journal was written, and that a supervisor has ended.
//!
//! One epoll instance contains an inotify instance, which watches the folders of the tasks, and the pidfds of the
//! supervisors. So a driver with many tasks does nothing while nothing changes.

use crate::task_files::journal::JOURNAL;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

/// The epoll data of the inotify instance. The epoll data of a supervisor's pidfd is the number of its task.
const INOTIFY: u64 = 0;

/// Maximum number of events that one system call returns, and maximum number of such calls at a time. A task that
/// writes to its journal all the time must not keep the driver from its work.
const EVENTS_MAX: usize = 256;
const ROUNDS: u32 = 64;

/// Bytes of inotify events that are read at once, and maximum number of such events at a time. A task may write to
/// files in its folder all the time.
const INOTIFY_BYTES: usize = 16 << 10;
const INOTIFY_MAX: usize = 1024;

/// Number of a watched task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Watched {
    number: u64,
    /// The inotify watch of the task's folder.
    folder: i32,
}

/// Tasks about which the kernel has notices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    numbers: BTreeSet<u64>,
    folders: BTreeSet<i32>,
    /// The kernel has dropped notices, so any task may have changed.
    are_incomplete: bool,
}

impl Notices {
    /// Whether the supervisor of a task has ended.
    pub(crate) fn has_end_of(&self, task: Watched) -> bool {
        self.numbers.contains(&task.number)
    }

    /// Whether a task may have changed. A task that is not watched may have changed at any time.
    pub(crate) fn concern(&self, task: Option<Watched>) -> bool {
        task.is_none_or(|Watched { number, folder }| {
            self.are_incomplete || self.numbers.contains(&number) || self.folders.contains(&folder)
        })
    }
}

/// The notices of all tasks of a driver. See the module documentation.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    inotify: OwnedFd,
    /// The highest number of a task so far.
    last: u64,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Watch> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags)?;
        let data = epoll::EventData::new_u64(INOTIFY);
        epoll::add(&epoll, &inotify, data, epoll::EventFlags::IN)?;
        Ok(Watch { epoll, inotify, last: INOTIFY })
    }

    /// Returns a file descriptor that is readable while there are notices.
    pub(crate) fn readable(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Watches the folder of a task. Call this before its journal is read or can be written.
    pub(crate) fn add(&mut self, folder: &Path) -> io::Result<Watched> {
        // A rewritten journal is moved to its name.
        let notices = WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let folder = inotify::add_watch(&self.inotify, folder, notices)?;
        self.last += 1;
        Ok(Watched { number: self.last, folder })
    }

    /// Watches the supervisor of a task.
    pub(crate) fn add_supervisor(&self, task: Watched, supervisor: &OwnedFd) -> io::Result<()> {
        let data = epoll::EventData::new_u64(task.number);
        // The kernel reports the end of a supervisor once, because processes of its task may be left for a long time.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(epoll::add(&self.epoll, supervisor, data, flags)?)
    }

    /// Ends the watch of a task. The end of its supervisor is watched until the pidfd is closed.
    pub(crate) fn remove(&self, watched: Watched) {
        // If the folder was deleted, there is no watch any more.
        let _ = inotify::remove_watch(&self.inotify, watched.folder);
    }

    /// Takes the notices, usually all of them.
    pub(crate) fn take(&self) -> Notices {
        let mut notices = Notices::default();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        for _ in 0..ROUNDS {
            events.clear();
            let at_once = Some(&Timespec { tv_sec: 0, tv_nsec: 0 });
            match epoll::wait(&self.epoll, spare_capacity(&mut events), at_once) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => {
                    notices.are_incomplete = true;
                    break;
                }
            }
            for number in events.iter().map(|event| event.data.u64()) {
                match number {
                    INOTIFY => self.read_folders(&mut notices),
                    number => _ = notices.numbers.insert(number),
                }
            }
            // Fewer events than there is room for are all of them.
            if events.len() < EVENTS_MAX {
                break;
            }
        }
        notices
    }

    /// Returns the number of watched folders, as the kernel counts them.
    #[cfg(test)]
    pub(crate) fn folders(&self) -> usize {
        use std::os::fd::AsRawFd;
        let file = format!("/proc/self/fdinfo/{}", self.inotify.as_raw_fd());
        let info = std::fs::read_to_string(file).unwrap();
        info.lines().filter(|line| line.starts_with("inotify ")).count()
    }

    fn read_folders(&self, notices: &mut Notices) {
        let mut buffer = [MaybeUninit::uninit(); INOTIFY_BYTES];
        let mut reader = inotify::Reader::new(self.inotify.as_fd(), &mut buffer);
        for _ in 0..INOTIFY_MAX {
            // An error means that all events were read.
            let Ok(event) = reader.next() else { return };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                notices.are_incomplete = true;
            }
            if event.file_name().is_some_and(|name| name.to_bytes() == JOURNAL.as_bytes()) {
                notices.folders.insert(event.wd());
            }
        }
        // The reader has taken further events from the kernel, which are lost with it.
        notices.are_incomplete = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::task_files::journal::{Entry, SupervisorProcess, Writer, append};
    use rustix::process::{Pid, PidfdFlags};
    use std::process::{Command, Stdio};

    /// The tasks with notices.
    fn noticed<const N: usize>(watch: &Watch, tasks: [Watched; N]) -> Vec<Watched> {
        let notices = watch.take();
        tasks.into_iter().filter(|task| notices.concern(Some(*task))).collect()
    }

    #[test]
    fn a_written_journal_concerns_its_task_alone() {
        let [one, two] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut watch = Watch::new().unwrap();
        let tasks = [watch.add(one.path()).unwrap(), watch.add(two.path()).unwrap()];
        assert_eq!(noticed(&watch, tasks), []);
        append(two.path(), &Entry::Confirmed).unwrap();
        assert_eq!(noticed(&watch, tasks), [tasks[1]]);
        assert_eq!(noticed(&watch, tasks), [], "a notice is taken once");
        std::fs::write(two.path().join("other"), "no journal").unwrap();
        assert_eq!(noticed(&watch, tasks), []);
        assert!(watch.take().concern(None), "a task that is not watched may have changed");
        watch.remove(tasks[1]);
        append(two.path(), &Entry::Confirmed).unwrap();
        assert_eq!(noticed(&watch, tasks), []);
    }

    #[test]
    fn a_rewritten_journal_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let process = SupervisorProcess { pid: 1, start_ticks: 1 };
        let mut writer = Writer::create(folder.path(), process).unwrap();
        let mut watch = Watch::new().unwrap();
        let task = [watch.add(folder.path()).unwrap()];
        for _ in 0..2000 {
            writer.append(&[Entry::Ended(Exit::NotStarted("a".repeat(100)))]).unwrap();
            assert_eq!(noticed(&watch, task), task);
        }
    }

    #[test]
    fn the_end_of_a_supervisor_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = Watch::new().unwrap();
        let task = watch.add(folder.path()).unwrap();
        let mut cat = Command::new("/bin/cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let handle = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let handle = handle.unwrap();
        watch.add_supervisor(task, &handle).unwrap();
        assert_eq!(noticed(&watch, [task]), []);
        // The end of its input ends the process.
        drop(child.stdin.take());
        child.wait().unwrap();
        let notices = watch.take();
        assert!(notices.concern(Some(task)) && notices.has_end_of(task));
        assert_eq!(noticed(&watch, [task]), []);
    }
}
