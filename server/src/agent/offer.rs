//! Description of this machine for the cell.

use super::args::AgentArgs;
use omega_agent::machine::Found;
use omega_core::limits::{AMOUNT_MAX, CORES_PER_NODE_MAX, NUMA_NODES_MAX};
use omega_core::{Amounts, Kinds, Labels, Machine, NodeCores};

/// Label of machines that can run containers; its value is the version of Podman.
const PODMAN: &str = "omega.io/podman";

/// Describes the detected machine in the resource kinds of the cell. Flags override detected values.
pub(super) fn machine(args: &AgentArgs, found: &Found, kinds: &Kinds) -> Machine {
    let mut capacity = Amounts::zero();
    let cpu_millis = args.cpu.map_or(found.cpu_millis, |cores| cores * 1000);
    let memory = args.memory.unwrap_or(found.memory_bytes);
    let gpu_millis = u64::from(found.gpus) * 1000;
    if let Some(cpu) = kinds.cpu() {
        capacity.set(cpu, cpu_millis);
    }
    let named = [("memory", memory), ("disk", found.disk_bytes), ("gpu", gpu_millis)];
    for (name, amount) in named {
        if let Some(kind) = kinds.by_name(name).filter(|_| amount > 0) {
            capacity.set(kind, amount.min(AMOUNT_MAX));
        }
    }
    let name = args.name.clone().unwrap_or_else(|| found.name.clone());
    let mut machine = Machine::new(name, capacity);
    let podman = found.podman.iter().map(|version| (PODMAN, &**version));
    let given = args.labels.iter().map(|(key, value)| (&**key, &**value));
    machine.labels = Labels::new(podman.chain(given));
    machine.devices = kinds.by_name("gpu").map_or(0, |_| found.gpus);
    machine.ports = args.ports.unwrap_or_default();
    machine.numa = args.numa.unwrap_or_else(|| nodes(found, cpu_millis));
    machine
}

/// Per NUMA node, the number of cores that tasks may use exclusively; none if the agent offers less cpu than the
/// machine has.
fn nodes(found: &Found, cpu_millis: u64) -> NodeCores {
    let counts = found.nodes.iter().take(NUMA_NODES_MAX);
    let counts = counts.map(|cores| (cores.len() as u64).min(CORES_PER_NODE_MAX.into()) as u16);
    let nodes = NodeCores::new(&counts.collect::<Vec<u16>>()).unwrap_or(NodeCores::NONE);
    if nodes.cpu_milli() > cpu_millis { NodeCores::NONE } else { nodes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        agent: AgentArgs,
    }

    fn offered(flags: &[&str], found: &Found) -> Machine {
        let line = Line::parse_from(["agent"].iter().chain(flags));
        machine(&line.agent, found, &Kinds::standard())
    }

    #[test]
    fn a_machine_offers_what_it_has_unless_it_is_told_less() {
        let found = Found {
            name: "box".to_owned(),
            cpu_millis: 4000,
            memory_bytes: 8 << 30,
            disk_bytes: 100 << 30,
            nodes: vec![vec![0, 1], vec![2, 3]],
            gpus: 2,
            podman: Some("5.4.2".to_owned()),
        };
        let all = offered(&["--label", "zone=a"], &found);
        assert_eq!((&*all.name, all.devices), ("box", 2));
        assert_eq!(all.capacity.as_slice(), [4000, 8 << 30, 100 << 30, 2000]);
        assert_eq!(all.numa.as_slice(), [2, 2]);
        assert_eq!(all.labels.get("zone").map(|zone| &**zone), Some("a"));
        assert_eq!(all.labels.get("omega.io/podman").map(|version| &**version), Some("5.4.2"));
        let named =
            ["--name", "other", "--cpu", "3", "--memory", "1GiB", "--label", "omega.io/podman=no"];
        let less = offered(&named, &found);
        assert_eq!(less.labels.get("omega.io/podman").map(|version| &**version), Some("no"));
        assert_eq!(&*less.name, "other");
        assert_eq!(less.capacity.as_slice()[..2], [3000, 1 << 30]);
        assert_eq!(less.numa, NodeCores::NONE);
    }
}
