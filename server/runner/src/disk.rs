//! Whether the disk with the tasks' files is full. A plain data structure, which gets the time as an argument.

use omega_agent::DiskSpace;
use std::time::{Duration, Instant};

/// Least free space of a disk that is not full: one part in `FULL_PART` of the disk, but not more than
/// `FULL_BYTES_MAX`. A task needs less than a mebibyte to start, and its logs take up to 40 MiB by default. Before the
/// space is that small, the process driver has removed all logs that are no longer needed.
const FULL_PART: u64 = 100;
const FULL_BYTES_MAX: u64 = 64 << 20;

/// Multiple of the least free space from which a full disk is usable again. Otherwise, the condition could change with
/// each file. The process driver removes old logs until there is at least this much space.
const USABLE_FACTOR: u64 = 2;

/// Time for which a disk with enough measured space counts as full after a write has failed: a quota is not measured.
const FAILED_FOR: Duration = Duration::from_secs(60);

/// The state of the disk. See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    is_full: bool,
    /// Time until which the disk counts as full because a write has failed, although there was enough space.
    full_until: Option<Instant>,
}

impl Disk {
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Records that a file could not be written because the disk is full.
    pub(crate) fn write_failed(&mut self, now: Instant) {
        self.is_full = true;
        self.full_until = Some(now + FAILED_FOR);
    }

    /// Records a measurement. A disk that cannot be measured has space.
    pub(crate) fn measured(&mut self, space: Option<DiskSpace>, now: Instant) {
        let factor = if self.is_full { USABLE_FACTOR } else { 1 };
        let lacks_space = space.is_some_and(|space| {
            let least = (space.total_bytes / FULL_PART).min(FULL_BYTES_MAX);
            space.free_bytes < least * factor || !space.has_free_files
        });
        if lacks_space {
            // The lack of space explains the failed write.
            self.full_until = None;
        }
        self.is_full = lacks_space || self.full_until.is_some_and(|until| now < until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(total_bytes: u64, free_bytes: u64) -> Option<DiskSpace> {
        Some(DiskSpace { total_bytes, free_bytes, has_free_files: true })
    }

    /// Measures a disk of this size, and returns whether it is full.
    fn measure(disk: &mut Disk, total_bytes: u64, free_bytes: u64) -> bool {
        disk.measured(space(total_bytes, free_bytes), Instant::now());
        disk.is_full()
    }

    #[test]
    fn a_full_disk_is_usable_again_with_twice_the_least_space() {
        for (total, least) in [(400 << 10, 4096), (1 << 30, 10_737_418), (1 << 40, 64 << 20)] {
            let mut disk = Disk::default();
            assert!(!measure(&mut disk, total, least), "{total}");
            assert!(measure(&mut disk, total, least - 1), "{total}");
            assert!(measure(&mut disk, total, 2 * least - 1), "{total}");
            assert!(!measure(&mut disk, total, 2 * least), "{total}");
            assert!(!measure(&mut disk, total, least), "{total}");
        }
        // Some file systems report no sizes.
        assert!(!measure(&mut Disk::default(), 0, 0));
    }

    #[test]
    fn a_disk_without_room_for_further_files_is_full() {
        let (mut disk, now) = (Disk::default(), Instant::now());
        let without_files =
            space(1 << 40, 1 << 39).map(|space| DiskSpace { has_free_files: false, ..space });
        disk.measured(without_files, now);
        assert!(disk.is_full());
        disk.measured(None, now);
        assert!(!disk.is_full(), "it cannot be measured");
    }

    #[test]
    fn a_failed_write_counts_for_a_minute() {
        let (mut disk, now) = (Disk::default(), Instant::now());
        disk.write_failed(now);
        let roomy = space(1 << 40, 1 << 39);
        disk.measured(roomy, now + FAILED_FOR - Duration::from_millis(1));
        assert!(disk.is_full(), "a quota may be used up");
        disk.measured(roomy, now + FAILED_FOR);
        assert!(!disk.is_full());
        disk.write_failed(now);
        disk.measured(space(1 << 40, 0), now);
        disk.measured(roomy, now);
        assert!(!disk.is_full(), "the lack of space explained the failure");
    }
}
