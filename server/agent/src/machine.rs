//! Detection of this machine's resources: cores, memory, disk, NUMA nodes and GPUs.

use crate::container;
use std::fs;
use std::path::Path;

/// Resources found on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Host name of the machine.
    pub name: String,
    /// Processor time that this process may use, in thousandths of a core.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Size of the folder's file system in bytes, including used space, so that a restarted agent offers as much as
    /// before.
    pub disk_bytes: u64,
    /// Numbers of the cores of each NUMA node.
    pub nodes: Vec<Vec<u32>>,
    /// Number of GPUs.
    pub gpus: u8,
    /// Version of Podman; `None` if the machine has none.
    pub podman: Option<String>,
}

/// Detects the resources of this machine. The detected disk is the file system of `folder`.
#[must_use]
pub fn find(folder: &Path) -> Found {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let disk = rustix::fs::statvfs(folder).map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    Found {
        name,
        cpu_millis: cores * 1000,
        memory_bytes: memory_total(&memory),
        disk_bytes: disk.unwrap_or_default(),
        nodes: nodes(Path::new("/sys/devices/system/node")),
        gpus: gpus(Path::new("/dev")),
        podman: container::podman_version(),
    }
}

/// Returns the total memory in bytes. The table `/proc/meminfo` gives it in kibibytes.
fn memory_total(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// The cores of each NUMA node, in the order of the nodes.
fn nodes(folder: &Path) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else { continue };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        found.push((number, parse_cores(list.trim())));
    }
    found.sort();
    found.into_iter().map(|(_, cores)| cores).filter(|cores| !cores.is_empty()).collect()
}

/// Parses a list of cores in the kernel's format, such as `0-3,8,10-11`.
pub(crate) fn parse_cores(list: &str) -> Vec<u32> {
    let mut cores = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cores.extend(first..=last.min(first.saturating_add(4096)));
        }
    }
    cores
}

/// Number of GPUs, by their device files: `nvidia0` and so on for NVIDIA; for AMD the render nodes below `dri`, if
/// there is a `kfd`.
fn gpus(dev: &Path) -> u8 {
    let count = |folder: &Path, prefix: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_one = |name: &str| {
            let rest = name.strip_prefix(prefix);
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        };
        entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_one)).count()
    };
    let amd = if dev.join("kfd").exists() { count(&dev.join("dri"), "renderD") } else { 0 };
    let all = count(dev, "nvidia") + amd;
    u8::try_from(all).unwrap_or(u8::MAX).min(omega_core::limits::DEVICES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_and_memory() {
        let found = find(Path::new("/tmp"));
        assert!(found.cpu_millis >= 1000 && found.memory_bytes > 1 << 26, "{found:?}");
        assert!(!found.name.is_empty() && found.disk_bytes > 0, "{found:?}");
    }

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(parse_cores("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cores(""), [0_u32; 0]);
        assert_eq!(memory_total("MemFree: 1 kB\nMemTotal:  2048 kB\n"), 2 << 20);
    }

    #[test]
    fn nodes_and_gpus_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for (node, list) in [("node1", "2-3\n"), ("node0", "0-1\n"), ("node2", "\n")] {
            fs::create_dir_all(at(node)).unwrap();
            fs::write(at(node).join("cpulist"), list).unwrap();
        }
        assert_eq!(nodes(folder.path()), [[0, 1], [2, 3]]);
        for file in ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"] {
            fs::write(at(file), "").unwrap();
        }
        assert_eq!(gpus(folder.path()), 2);
        fs::create_dir_all(at("dri")).unwrap();
        fs::write(at("dri/renderD128"), "").unwrap();
        assert_eq!(gpus(folder.path()), 2, "a card for screens is no accelerator");
        fs::write(at("kfd"), "").unwrap();
        assert_eq!(gpus(folder.path()), 3);
    }
}
