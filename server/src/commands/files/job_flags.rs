//! A job with one task group, described by flags. A file can express more.

use crate::commands::CommandError;
use crate::commands::files::amount::{self, AmountArgs};
use crate::commands::files::job_name::job_name;
use crate::commands::files::moment::Moment;
use crate::commands::files::pairs;
use crate::commands::files::rules_file::implied;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use omega_core::{
    CoreRequest, EnvVar, Job, JobKind, Kinds, Labels, MachineSelector, NamedPort, Port, Precedence,
    Requirement, Run, Spread, TaskGroup, TaskRule, TaskSelector, Text, TopologyLevel,
};
use std::sync::Arc;
use std::time::Duration;

/// Headings of options in the help.
const TASK: &str = "Resources of each task [default: none, except --cpu with --cores]";
const PLACEMENT: &str = "Placement";

/// A job of one group.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("program").multiple(true))]
pub(in crate::commands) struct JobFlags {
    /// Name of the job; required unless --file is given.
    #[arg(value_name = "NAME", required_unless_present = "file")]
    pub(in crate::commands) name: Option<String>,
    /// Number of tasks [default: 1].
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Amount of a cluster resource that each task claims, such as licence=1. May be repeated.
    #[arg(long = "cluster-amount", help_heading = TASK, value_name = "KIND=AMOUNT", value_parser = amount::named)]
    of_cell: Vec<amount::Named>,
    /// Number of exclusive cores of each task. This is also the task's cpu, unless --cpu is given
    /// [default: no exclusive cores].
    #[arg(long, help_heading = TASK, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cores: Option<u16>,
    /// Place all exclusive cores of a task on one NUMA node.
    #[arg(long, help_heading = TASK, requires = "cores")]
    one_node: bool,
    /// Submit a service, which has no planned end, instead of a batch job. Without --spread and --anti-affinity, its
    /// tasks prefer different machines.
    #[arg(long)]
    service: bool,
    /// Scheduler that places the job [default: the scheduler `default`].
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Tenant of the job, whose quotas apply [default: the tenant `default`].
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Precedence of the job. A scheduler whose profile has a preemption plugin may evict tasks of lower precedence to
    /// place this job [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    precedence: Option<i32>,
    /// Expected run time of a task, such as 30s, 5m or 2h, for plugins that plan ahead; a task that runs longer is not
    /// ended [default: unknown].
    #[arg(long, value_name = "TIME", value_parser = crate::duration::duration)]
    run_time: Option<Duration>,
    /// Deadline of the job, for schedulers that sort their queue by deadline: a time from now such as 2h, or
    /// @1764000000 in seconds since 1970. No job is rejected or ended because of its deadline [default: none].
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    deadline: Option<Moment>,
    /// Place the job as a gang: at least this number of tasks together, or none [default: no gang].
    #[arg(long, help_heading = PLACEMENT, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    gang: Option<u32>,
    /// Let several transactions place the gang. If the gang is still incomplete after this time, such as 5m (at most
    /// 1h), its placed tasks are removed from their machines [default: one transaction must place the gang].
    #[arg(long, help_heading = PLACEMENT, value_name = "TIME", requires = "gang", value_parser = crate::duration::duration)]
    gang_timeout: Option<Duration>,
    /// Number of times that a failed task is placed again; above 65535, unlimited [default: 0].
    #[arg(long, value_name = "N")]
    restarts: Option<u32>,
    /// Time that a stopped task has to end before it is killed, such as 30s, at most 1h [default: 0s].
    #[arg(long, value_name = "TIME", value_parser = crate::duration::duration)]
    grace: Option<Duration>,
    /// Label of each task. May be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pairs::label)]
    labels: Vec<(String, String)>,
    /// Label that a machine must have. May be repeated: a machine must have all the labels.
    #[arg(long, help_heading = PLACEMENT, value_name = "KEY=VALUE", value_parser = pairs::label)]
    require: Vec<(String, String)>,
    /// Spread the tasks evenly over the values of a machine label. With rack:1, the numbers of tasks in any two racks
    /// differ by at most 1. May be repeated.
    #[arg(long, help_heading = PLACEMENT, value_name = "LABEL:SKEW", value_parser = pairs::level_and_skew)]
    spread: Vec<(TopologyLevel, u32)>,
    /// Keep the tasks of the job apart: `machine` allows one task on each machine; the key of a machine label, such as
    /// rack, allows one task for each value of the label. May be repeated.
    #[arg(long, help_heading = PLACEMENT, value_name = "LEVEL", value_parser = pairs::level)]
    anti_affinity: Vec<TopologyLevel>,
    /// Port of each task: NAME=any for a free port that the cell chooses, or NAME=NUMBER. The program finds the number
    /// of the port http in the environment variable OMEGA_PORT_HTTP. May be repeated.
    #[arg(long = "port", value_name = "NAME=PORT", value_parser = port)]
    ports: Vec<PortFlag>,
    /// Environment variable of the program. May be repeated.
    #[arg(long = "env", help_heading = "Program", value_name = "NAME=VALUE", value_parser = variable, requires = "program")]
    env: Vec<EnvVar>,
    /// User that the program runs as [default: the agent's user, or the user of the image].
    #[arg(long, help_heading = "Program", value_name = "NAME", requires = "program", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// Container image in which the program runs [default: the program runs on the machine itself].
    #[arg(long, help_heading = "Program", value_name = "IMAGE", group = "program")]
    image: Option<String>,
    /// Program of each task, and its arguments, after `--` [default: tasks without a program]. With --image, all words
    /// are arguments of the image's entry point.
    #[arg(last = true, value_name = "COMMAND", group = "program")]
    run: Vec<String>,
    #[command(flatten, next_help_heading = TASK)]
    amounts: AmountArgs,
}

/// An environment variable. Its value may be empty or contain further equals signs.
fn variable(text: &str) -> Result<EnvVar, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(EnvVar { name: name.into(), value: value.into() })
        }
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

/// A port with its name.
#[derive(Clone, Debug)]
struct PortFlag {
    name: Text,
    /// The number; `None` for a port that the cell chooses.
    number: Option<u16>,
}

impl PortFlag {
    fn fixed(&self) -> Option<NamedPort> {
        Some(NamedPort { name: self.name.clone(), number: self.number? })
    }
}

fn port(text: &str) -> Result<PortFlag, String> {
    let read = || {
        let (name, number) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
        let number = match number {
            "any" => None,
            number => Some(number.parse().ok().filter(|number| *number > 0)?),
        };
        Some(PortFlag { name: name.into(), number })
    };
    read().ok_or_else(|| "must be NAME=any, or NAME=NUMBER with a port from 1 to 65535".to_owned())
}

impl JobFlags {
    /// The job that the flags describe, for a cell with these kinds.
    ///
    /// # Errors
    /// If the cell has no kind for an amount, or the unit is wrong.
    pub(in crate::commands) fn job(&self, kinds: &Kinds) -> Result<Job, CommandError> {
        let request = amount::amounts(kinds, self.amounts.named(), 0)?;
        let mut group = TaskGroup::new(self.count.unwrap_or(1), request);
        let of_cell = self.of_cell.iter().map(|named| named.by("--cluster-amount"));
        group.cluster_request = amount::amounts(kinds, of_cell, 0)?;
        if let Some(count) = self.cores {
            let cores = if self.one_node {
                CoreRequest::on_one_node(count)
            } else {
                CoreRequest::any(count)
            };
            let cpu = amount::kind(kinds, "--cores".to_owned(), "cpu")?;
            if group.request.get(cpu) == 0 {
                group.request.set(cpu, cores.cpu_milli());
            }
            group.cores = Some(cores);
        }
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        group.restarts = self.restarts.unwrap_or_default();
        group.grace_ms = self.grace.map_or(0, millis);
        let labels = self.labels.iter();
        group.labels = Labels::new(labels.map(|(key, value)| (key.as_str(), value.as_str())));
        if !self.require.is_empty() {
            let one = |(key, value): &(String, String)| Requirement::equals(&**key, &**value);
            let labels = self.require.iter().map(one).collect();
            let machines = MachineSelector { labels, names: Vec::new() };
            group.rules.affinity.required = Some(vec![machines]);
        }
        let spread = |(level, skew): &(TopologyLevel, u32)| {
            TaskRule::Spread(Spread::new(TaskSelector::SameGroup, level.clone(), *skew))
        };
        let apart = |level: &TopologyLevel| TaskRule::AntiAffinity {
            from: TaskSelector::SameGroup,
            level: level.clone(),
        };
        group.rules.tasks.extend(self.spread.iter().map(spread));
        group.rules.tasks.extend(self.anti_affinity.iter().map(apart));
        let kind = if self.service { JobKind::Service } else { JobKind::Batch };
        if group.rules.tasks.is_empty() {
            group.rules.tasks.extend(implied::rule(kind, false));
        }
        group.run = self.run().map(Arc::new);
        for PortFlag { name, number } in &self.ports {
            match number {
                Some(number) => group.rules.ports.push(Port::tcp(*number)),
                None => group.any_ports.push(name.clone()),
            }
        }
        let name = job_name(self.name.as_deref().unwrap_or_default(), "NAME")?;
        let mut job = Job::batch(name, group);
        job.kind = kind;
        if let Some(scheduler) = &self.scheduler {
            job.scheduler = scheduler.as_str().into();
        }
        if let Some(tenant) = &self.tenant {
            job.tenant = tenant.as_str().into();
        }
        job.precedence = Precedence(self.precedence.unwrap_or_default());
        job.gang_min = self.gang;
        job.gang_timeout_ms = self.gang_timeout.map(millis);
        job.runtime_estimate_ms = self.run_time.map(|time| time.as_millis() as u64);
        job.deadline_ms = self.deadline.map(Moment::unix_ms);
        Ok(job)
    }

    fn run(&self) -> Option<Run> {
        let none = String::new();
        let (command, args) = match (&self.image, self.run.split_first()) {
            (Some(_), _) => (&none, &*self.run),
            (None, first) => first?,
        };
        Some(Run {
            image: self.image.as_deref().map(Into::into),
            env: self.env.clone(),
            user: self.user.as_deref().map(Into::into),
            ports: self.ports.iter().filter_map(PortFlag::fixed).collect(),
            ..Run::new(command.as_str()).with_args(args.iter().map(String::as_str))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command, FromArgMatches};

    #[test]
    fn restarts_and_grace_of_the_flags_are_those_of_the_group() {
        let group = |line: &str| {
            let command =
                Command::new("submit").no_binary_name(true).arg(Arg::new("file").long("file"));
            let command = JobFlags::augment_args(command);
            let flags = command.try_get_matches_from(line.split(' ')).unwrap();
            let job = JobFlags::from_arg_matches(&flags).unwrap().job(&Kinds::standard()).unwrap();
            (job.groups[0].restarts, job.groups[0].grace_ms)
        };
        assert_eq!(group("web --restarts 3 --grace 1.5s"), (3, 1500));
        assert_eq!(group("web"), (0, 0));
    }
}
