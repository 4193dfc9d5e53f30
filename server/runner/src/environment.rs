//! Environment variables of a task: those of its job, and `OMEGA_*` variables with the task's identity, resources and
//! ports.

use omega_client::agent::Task;
use omega_core::{KindId, Kinds};

/// Returns the environment variables of a task with these exclusive cores. The job's variables come first.
pub(crate) fn of(task: &Task, kinds: &Kinds, cores: &[u32]) -> Vec<(String, String)> {
    let amount = |kind: Option<KindId>| kind.map_or(0, |kind| task.request.get(kind)).to_string();
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let run = task.program.run.as_ref();
    let named = run.into_iter().flat_map(|run| &run.env);
    let mut all: Vec<(String, String)> =
        named.map(|one| (one.name.to_string(), one.value.to_string())).collect();
    let mut set = |name: &str, value: String| all.push((format!("OMEGA_{name}"), value));
    set("JOB", task.job_name.to_string());
    set("GROUP", task.group.to_string());
    set("TENANT", task.program.tenant.to_string());
    set("TASK_INDEX", task.id.index.to_string());
    set("CPU_MILLIS", amount(kinds.cpu()));
    set("MEMORY_BYTES", amount(kinds.by_name("memory")));
    set("DEVICES", list(&task.devices));
    set("CORES", list(cores));
    for port in task.ports.iter().chain(run.into_iter().flat_map(|run| &run.ports)) {
        let name = port.name.to_ascii_uppercase().replace('-', "_");
        set(&format!("PORT_{name}"), port.number.to_string());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_client::agent::Program;
    use omega_core::{Amounts, EnvVar, JobId, JobKind, MachineId, NamedPort, Run, TaskId};
    use std::sync::Arc;

    #[test]
    fn a_task_is_told_what_it_is_and_has() {
        let variable = EnvVar { name: "MODE".into(), value: "a b".into() };
        let port = NamedPort { name: "rpc-2".into(), number: 8080 };
        let run = Run { env: vec![variable], ports: vec![port], ..Run::new("/bin/true") };
        let program = Program { tenant: "shop".into(), run: Some(run), ..Program::default() };
        let task = Task {
            placed_ms: 0,
            id: TaskId { job: JobId(3), index: 17 },
            machine: MachineId::first(0),
            job_name: "web".into(),
            group: "main".into(),
            kind: JobKind::Service,
            runtime_estimate_ms: None,
            images: Vec::new(),
            request: Amounts::new([1500, 1 << 30]),
            devices: vec![0, 3],
            cores: vec![2],
            ports: vec![NamedPort { name: "http".into(), number: 20_017 }],
            grace_ms: 0,
            program: Arc::new(program),
        };
        let all = of(&task, &Kinds::standard(), &[4, 5]);
        let all: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected = [
            "MODE=a b",
            "OMEGA_JOB=web",
            "OMEGA_GROUP=main",
            "OMEGA_TENANT=shop",
            "OMEGA_TASK_INDEX=17",
            "OMEGA_CPU_MILLIS=1500",
            "OMEGA_MEMORY_BYTES=1073741824",
            "OMEGA_DEVICES=0,3",
            "OMEGA_CORES=4,5",
            "OMEGA_PORT_HTTP=20017",
            "OMEGA_PORT_RPC_2=8080",
        ];
        assert_eq!(all, expected);
    }
}
