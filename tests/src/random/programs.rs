//! Random programs and payloads, some of which exceed their bounds.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::{
    Command, EndReason, EnvVar, HealthCheck, MachineId, Mount, NamedPort, Probe, RestartPolicy,
    Run, RunEnd, TaskGroup, TaskId, TaskReport, TaskUse, Text,
};
use std::sync::Arc;

impl Generator {
    /// Occasionally gives a group a program or a payload.
    pub(super) fn run_program(&mut self, group: &mut TaskGroup) {
        let dice = &mut self.programs;
        if dice.chance(5) {
            let bytes = *dice.pick(&[1, 100, 1000, 65_536, 65_537]);
            group.payload = vec![dice.below(256) as u8; bytes].into();
        }
        if !dice.chance(20) {
            return;
        }
        let mut run = Run::new(*dice.pick(&["/bin/true", "serve", "a\nb", "serve", ""]));
        run.args = (0..dice.below(3)).map(|_| self.argument()).collect();
        let names = ["A", "B", "PATH", "A", "OMEGA_JOB", "B=C", ""];
        for _ in 0..self.programs.below(2) {
            let (name, value) = ((*self.programs.pick(&names)).into(), self.argument());
            run.env.push(EnvVar { name, value });
        }
        let dice = &mut self.programs;
        if dice.chance(20) {
            run.working_dir = Some((*dice.pick(&["/", "/tmp", "/srv", "tmp"])).into());
        }
        if dice.chance(20) {
            run.user = Some((*dice.pick(&["nobody", "www", "www", ""])).into());
        }
        if let Some(port) = group.rules.ports.first().filter(|_| dice.chance(60)) {
            let name = (*dice.pick(&["http", "rpc-1", "rpc", "a b"])).into();
            let number = port.number + u16::from(dice.chance(10));
            run.ports = vec![NamedPort { name, number }];
        }
        if dice.chance(30) {
            run.health = Some(self.check());
        }
        let dice = &mut self.programs;
        let delay_ms = *dice.pick(&[0, 100, 1000, 3_600_000, 3_600_001]);
        run.restart = RestartPolicy { attempts: dice.below(3) as u32, delay_ms };
        self.container(&mut run);
        group.run = Some(Arc::new(run));
    }

    /// Occasionally gives a program a container. Most containers are valid, because a job with an invalid one tests
    /// nothing else.
    fn container(&mut self, run: &mut Run) {
        let dice = &mut self.containers;
        if !dice.chance(20) {
            return;
        }
        let is_valid = dice.chance(90);
        let images = if is_valid { ["nginx:1.27", "a/b", "c"] } else { ["-v", "a b", ""] };
        run.image = Some((*dice.pick(&images)).into()).filter(|_| is_valid || dice.chance(80));
        if dice.chance(50) {
            let sources = if is_valid { ["/srv", "/srv/web"] } else { ["srv", "/a,b"] };
            let source = (*dice.pick(&sources)).into();
            let mount = Mount { source, target: "/www".into(), is_read_only: dice.chance(50) };
            let count = *dice.pick(if is_valid { &[1, 2, 64] } else { &[1, 2, 65] });
            run.mounts = vec![mount; count];
        }
    }

    /// A report of a task, occasionally with the end of its program, or a report of a restart instead.
    pub(super) fn report(
        &mut self,
        (task, machine): (TaskId, MachineId),
        placed_ms: u64,
        report: TaskReport,
    ) -> Command {
        let dice = &mut self.ends;
        if !dice.chance(30) {
            return Command::ReportTask { task, machine, placed_ms, report };
        }
        let report = if dice.chance(20) { TaskReport::Restarted } else { report };
        let reason = match dice.below(4) {
            0 => EndReason::Signal(9),
            1 => EndReason::OutOfMemory,
            2 => EndReason::not_started("no such file"),
            _ => EndReason::ExitCode(dice.below(256) as i32),
        };
        let end = RunEnd { reason, restarts: dice.below(3) as u32 };
        Command::ReportEnd { task, machine, placed_ms, report, end }
    }

    /// Creates a history in which agents report the use of tasks.
    #[must_use]
    pub fn with_uses(self, seed: u64) -> Generator {
        Generator { uses: Some(Dice::new(seed ^ 0x05E5)), ..self }
    }

    /// Occasionally reports the use of a task.
    pub(super) fn report_use(&mut self, reference: &Reference) -> Option<Command> {
        let dice = self.uses.as_mut().filter(|_| !reference.jobs().is_empty())?;
        if !dice.chance(4) {
            return None;
        }
        let (cpu_us, memory_byte_seconds) =
            (dice.below(1_000_000) as u64, dice.below(1 << 20) as u64);
        let is_elsewhere = dice.chance(10);
        let task = self.placed_task(reference);
        let at = reference.task(task).and_then(|(_, task)| task.state.machine());
        let machine = at.filter(|_| !is_elsewhere).unwrap_or_else(|| self.some_machine(reference));
        let used = TaskUse { task, cpu_us, memory_byte_seconds };
        Some(Command::ReportUse { machine, used: vec![used] })
    }

    fn argument(&mut self) -> Text {
        let dice = &mut self.programs;
        match dice.below(20) {
            0 => "a\0b".into(),
            1 => "x".repeat(*dice.pick(&[32_768, 32_769, 20_000])).into(),
            _ => (*dice.pick(&["-c", "", "echo a\necho b", "--port=80"])).into(),
        }
    }

    fn check(&mut self) -> HealthCheck {
        let dice = &mut self.programs;
        let port = dice.below(12) as u16;
        let probe = match dice.below(3) {
            0 => Probe::Tcp(port),
            1 if port < 6 => Probe::NamedTcp("web".into()),
            1 => {
                Probe::Http { port, path: (*dice.pick(&["/", "/a?b=c", "/", "a", "/a b"])).into() }
            }
            _ => {
                let words = (0..dice.below(4)).map(|_| "true".into()).collect();
                Probe::Command(words)
            }
        };
        HealthCheck {
            probe,
            interval_ms: *dice.pick(&[1000, 1, 3_600_000, 1000, 3_600_001, 0]),
            timeout_ms: *dice.pick(&[1000, 1, 500, 500, 500, 0]),
            failures: dice.below(20) as u32,
            start_period_ms: 0,
        }
    }
}
