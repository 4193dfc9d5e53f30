//! A job as described in a file, with all its rules.

mod jobs;
mod update;
mod written;

pub(in crate::commands) use jobs::JobsFile;
use update::UpdateFile;

use crate::commands::CommandError;
use crate::commands::files::amount::{self, Amount};
use crate::commands::files::job_name::job_name;
use crate::commands::files::machine_file::NumberOrText;
use crate::commands::files::moment::Moment;
use crate::commands::files::ports_file::{NamedOrList, PortsFile};
use crate::commands::files::rules_file::{
    PreferredFile, RuleFile, SelectorFile, TolerationFile, affinity, implied,
};
use crate::commands::files::run_file::{self, RunFile};
use crate::commands::files::time_file::TimeFile;
use omega_core::{
    Amounts, CorePlace, CoreRequest, DemandProfile, DeviceRequest, Job, JobKind, Kinds, Labels,
    NamedPort, OptionalResources, Payload, PlacementRules, Precedence, Preemption, Run,
    SharedGroup, TaskGroup, TaskRule, Unit,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A job.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct JobFile {
    /// Name, unique in the cell.
    name: String,
    /// Name of the tenant, whose quotas apply.
    #[serde(default = "default")]
    tenant: String,
    /// Name of the scheduler that places the job.
    #[serde(default = "default")]
    scheduler: String,
    /// Service or batch.
    #[serde(default)]
    kind: KindFile,
    /// Precedence: the job may preempt jobs of lower precedence.
    #[serde(default)]
    precedence: i32,
    /// Whether the job's tasks may preempt other tasks.
    #[serde(default)]
    preemption: PreemptionFile,
    /// Least number of tasks that are placed together.
    gang_min: Option<u32>,
    /// Gang timeout: how long an incomplete gang keeps its places, at most `1h`.
    #[schemars(with = "Option<String>")]
    gang_timeout: Option<TimeFile>,
    /// Runtime estimate of a task: `500ms`, `30s`, `5m`, `2h`.
    #[schemars(with = "Option<String>")]
    run_time: Option<TimeFile>,
    /// Deadline: `2h` after submission, or `@1764000000` in seconds since 1970.
    #[schemars(with = "Option<String>")]
    deadline: Option<Moment>,
    /// Rules of rolling updates, for a service.
    update: Option<UpdateFile>,
    /// Task groups.
    group: Vec<GroupFile>,
}

/// Kind of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KindFile {
    /// A job without a planned end.
    Service,
    /// A job that runs to its end.
    #[default]
    Batch,
}

/// Preemption policy of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PreemptionFile {
    /// The job may preempt tasks of lower precedence.
    #[default]
    LowerPrecedence,
    /// The job never preempts tasks.
    Never,
}

/// Identical tasks of a job.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    /// Name, unique in the job.
    #[serde(default = "main")]
    name: String,
    /// Number of tasks.
    #[serde(default = "one")]
    count: u32,
    /// Whether the group has one task on each machine where its tasks may run, including machines that are added later.
    /// This replaces `count`.
    #[serde(default, skip_serializing_if = "is_false")]
    per_machine: bool,
    /// Request of each task by resource kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, NumberOrText>")]
    request: BTreeMap<String, Amount>,
    /// Demand profiles by resource kind: one amount for each of N equal parts of the day. N divides 288, the number of
    /// five-minute steps in a day. The highest amount is the request of the kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Vec<NumberOrText>>")]
    demand_profiles: BTreeMap<String, Vec<Amount>>,
    /// Devices (GPUs) of each task. They set the request of `gpu`, unless it is given.
    devices: Option<DevicesFile>,
    /// Exclusive cores of each task. They set the request of `cpu`, unless it is given.
    cores: Option<CoresFile>,
    /// Optional resources of each task by kind, added to the request if they are free.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, NumberOrText>")]
    optional: BTreeMap<String, Amount>,
    /// Optional devices of each task, if it requests no devices. They set the optional amount of `gpu`, unless it is
    /// given.
    optional_devices: Option<DevicesFile>,
    /// Cluster resources that each placed task claims, by kind: licences, addresses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, NumberOrText>")]
    cluster_request: BTreeMap<String, Amount>,
    /// Labels of the tasks, by which rules of other jobs select them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Restarts of a failed task; above 65535, unlimited.
    #[serde(default)]
    restarts: u32,
    /// Grace period: `30s`, at most `1h`. If a stopped task still runs after this time, it is killed.
    #[schemars(with = "Option<String>")]
    grace: Option<TimeFile>,
    /// Names of the container images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    /// The program that each task runs.
    run: Option<RunFile>,
    /// Text that is passed unchanged to the agent, for custom agents.
    payload: Option<String>,
    /// File whose bytes, at most 64 KiB, are passed to the agent in place of a `payload`. Its path is relative to the
    /// job's file.
    payload_file: Option<PathBuf>,
    /// Names of the volume claims of each task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<String>,
    /// Name of the only machine where the tasks may run, if any.
    machine: Option<String>,
    /// The machine must match at least one of these selectors, if any is given.
    required: Option<Vec<SelectorFile>>,
    /// Selectors of preferred machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    preferred: Vec<PreferredFile>,
    /// Tolerated taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tolerations: Vec<TolerationFile>,
    /// Rules that relate the tasks to other tasks. In a service, a group without `rules` prefers machines with fewer of
    /// its tasks; `rules = []` removes this preference.
    rules: Option<Vec<RuleFile>>,
    /// Ports of each task: `{ http = "any", metrics = 9100 }`, or a list. With `any`, the cell chooses a free port of
    /// the machine's range.
    #[serde(default, skip_serializing_if = "PortsFile::is_empty")]
    #[schemars(with = "NamedOrList")]
    ports: PortsFile,
}

/// Requested devices of a task.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DevicesFile {
    /// Number of devices.
    count: u8,
    /// Share of each device, in thousandths.
    #[serde(default = "whole")]
    milli_each: u16,
}

/// Exclusive cores of a task.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CoresFile {
    /// Number of cores.
    count: u16,
    /// Placement on NUMA nodes.
    #[serde(default)]
    place: PlaceFile,
}

/// Placement of a task's cores on NUMA nodes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PlaceFile {
    /// On any NUMA nodes.
    #[default]
    AnyNodes,
    /// All on one NUMA node.
    OneNode,
}

impl From<CoresFile> for CoreRequest {
    fn from(cores: CoresFile) -> CoreRequest {
        let place = match cores.place {
            PlaceFile::AnyNodes => CorePlace::AnyNodes,
            PlaceFile::OneNode => CorePlace::OneNode,
        };
        CoreRequest { count: cores.count, place }
    }
}

fn default() -> String {
    "default".to_owned()
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn main() -> String {
    "main".to_owned()
}

fn whole() -> u16 {
    1000
}

impl JobFile {
    /// The job that the file describes, for a cell with these kinds.
    ///
    /// # Errors
    /// If the cell lacks a named kind, or an amount has the wrong unit.
    pub(in crate::commands) fn job(&self, kinds: &Kinds, file: &Path) -> Result<Job, CommandError> {
        self.job_at(kinds, file, &omega_workload::file::shown(file))
    }

    /// The job. `place` is the job's place in the file, for errors.
    fn job_at(&self, kinds: &Kinds, file: &Path, place: &str) -> Result<Job, CommandError> {
        let kind = match self.kind {
            KindFile::Service => JobKind::Service,
            KindFile::Batch => JobKind::Batch,
        };
        let groups = self.group.iter().enumerate().map(|(index, group)| {
            let at = |field: &str| format!("{place}: group[{index}].{field}");
            let rules = group.task_rules(kind);
            Ok(SharedGroup::from(group.group(kinds, file, rules, at)?))
        });
        Ok(Job {
            name: job_name(&self.name, &format!("{place}: name"))?,
            tenant: self.tenant.as_str().into(),
            scheduler: self.scheduler.as_str().into(),
            precedence: Precedence(self.precedence),
            preemption: match self.preemption {
                PreemptionFile::LowerPrecedence => Preemption::LowerPrecedence,
                PreemptionFile::Never => Preemption::Never,
            },
            kind,
            groups: groups.collect::<Result<_, CommandError>>()?,
            gang_min: self.gang_min,
            gang_timeout_ms: self.gang_timeout.map(TimeFile::millis),
            runtime_estimate_ms: self.run_time.map(TimeFile::long_millis),
            deadline_ms: self.deadline.map(Moment::unix_ms),
            update: self.update.map(Into::into),
        })
    }
}

impl GroupFile {
    fn group(
        &self,
        kinds: &Kinds,
        file: &Path,
        task_rules: Vec<TaskRule>,
        at: impl Fn(&str) -> String,
    ) -> Result<TaskGroup, CommandError> {
        let (mut request, devices) = amounts_and_devices(
            kinds,
            (&self.request, self.devices),
            |field: &str| at(&format!("request.{field}")),
            at("devices"),
        )?;
        let demand_profiles = self.demand_profiles(kinds, &at)?;
        for demand_profile in &demand_profiles {
            if request.get(demand_profile.kind) == 0 {
                request.set(demand_profile.kind, demand_profile.peak());
            }
        }
        let cores = self.cores.map(CoreRequest::from);
        if let Some(cores) = cores {
            let cpu = amount::kind(kinds, at("cores"), "cpu")?;
            if request.get(cpu) == 0 {
                request.set(cpu, cores.cpu_milli());
            }
        }
        let (wanted, wanted_devices) = amounts_and_devices(
            kinds,
            (&self.optional, self.optional_devices),
            |field: &str| at(&format!("optional.{field}")),
            at("optional_devices"),
        )?;
        let optional = OptionalResources { amounts: wanted, devices: wanted_devices };
        let optional_nothing = optional.amounts.is_zero() && optional.devices.is_none();
        let of_cell = self.cluster_request.iter();
        let of_cell = of_cell
            .map(|(kind, amount)| (at(&format!("cluster_request.{kind}")), kind.clone(), amount));
        let ports = self.ports.ports(&at)?;
        let texts = |list: &[String]| list.iter().map(|text| text.as_str().into()).collect();
        Ok(TaskGroup {
            name: self.name.as_str().into(),
            count: self.count,
            request,
            devices,
            labels: Labels::new(self.labels.iter().map(|(key, value)| (&**key, &**value))),
            restarts: self.restarts,
            images: texts(&self.images),
            rules: PlacementRules {
                machine: self.machine.as_deref().map(Into::into),
                affinity: affinity(self.required.as_deref(), &self.preferred),
                tolerations: self.tolerations.iter().map(Into::into).collect(),
                tasks: task_rules,
                ports: ports.fixed,
            },
            volumes: texts(&self.volumes),
            grace_ms: self.grace.map_or(0, TimeFile::millis),
            demand_profiles,
            optional: (!optional_nothing).then_some(optional),
            cores,
            cluster_request: amount::amounts(kinds, of_cell, 0)?,
            run: self.run(&at, ports.named)?.map(Arc::new),
            payload: self.payload(file, &at)?,
            version: 0,
            per_machine: self.per_machine,
            any_ports: ports.any,
        })
    }

    /// The rules about other tasks in the file, and the implied rule if there is one.
    fn task_rules(&self, kind: JobKind) -> Vec<TaskRule> {
        let given = self.rules.iter().flatten();
        let mut rules: Vec<TaskRule> = given.map(Into::into).collect();
        let is_implied = self.per_machine || self.rules.is_none();
        let implied = implied::rule(kind, self.per_machine).filter(|_| is_implied);
        rules.extend(implied.filter(|rule| !rules.contains(rule)));
        rules
    }

    fn run(
        &self,
        at: impl Fn(&str) -> String,
        ports: Vec<NamedPort>,
    ) -> Result<Option<Run>, CommandError> {
        self.run.as_ref().map(|run| run.run(&at("run"), ports)).transpose()
    }

    fn payload(&self, file: &Path, at: impl Fn(&str) -> String) -> Result<Payload, CommandError> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let named = self.payload_file.as_ref().map(|path| folder.join(path));
        run_file::payload(&at("payload"), self.payload.as_deref(), named.as_deref())
    }

    fn demand_profiles(
        &self,
        kinds: &Kinds,
        at: impl Fn(&str) -> String,
    ) -> Result<Vec<DemandProfile>, CommandError> {
        let demand_profile = |(name, points): (&String, &Vec<Amount>)| {
            let kind = amount::kind(kinds, at("demand_profiles"), name)?;
            let unit = kinds.get(kind).map_or(Unit::Count, |kind| kind.unit);
            let points = points.iter().enumerate().map(|(i, point)| {
                point.of(unit).map_err(|why| CommandError::Amount {
                    place: at(&format!("demand_profiles.{name}[{i}]")),
                    why,
                })
            });
            Ok(DemandProfile { kind, points: points.collect::<Result<_, CommandError>>()? })
        };
        let mut demand_profiles: Vec<DemandProfile> =
            self.demand_profiles.iter().map(demand_profile).collect::<Result<_, CommandError>>()?;
        demand_profiles.sort_by_key(|demand_profile| demand_profile.kind);
        Ok(demand_profiles)
    }
}

/// Amounts by kind, with devices. Devices are counted as `gpu`, unless the amounts include that kind.
fn amounts_and_devices(
    kinds: &Kinds,
    (amounts, devices): (&BTreeMap<String, Amount>, Option<DevicesFile>),
    at: impl Fn(&str) -> String,
    at_devices: String,
) -> Result<(Amounts, Option<DeviceRequest>), CommandError> {
    let named = amounts.iter().map(|(kind, amount)| (at(kind), kind.clone(), amount));
    let mut sum = amount::amounts(kinds, named, 0)?;
    let request = |devices: DevicesFile| DeviceRequest {
        count: devices.count,
        milli_each: devices.milli_each,
    };
    let devices = devices.map(request);
    if let Some(devices) = devices.filter(|_| !amounts.contains_key("gpu")) {
        let gpu = amount::kind(kinds, at_devices, "gpu")?;
        sum.set(gpu, u64::from(devices.count) * u64::from(devices.milli_each));
    }
    Ok((sum, devices))
}

#[cfg(test)]
mod tests {
    use super::super::machine_file::MachinesFile;
    use super::super::txn_file::TransactionFile;
    use super::*;
    use omega_core::{TaskSelector, TopologyLevel};

    const ALL: &str = r#"
        name = "web"
        kind = "service"
        precedence = 10
        preemption = "never"
        gang_min = 2
        gang_timeout = "30s"
        run_time = "1.5s"
        deadline = "@1764000000"

        [[group]]
        count = 3
        request = { cpu = 0.5, memory = "2GiB" }
        devices = { count = 1 }
        optional = { cpu = 1 }
        labels = { app = "web" }
        required = [{ labels = [{ key = "zone", values = ["a", "b"] }] }]
        preferred = [{ weight = 5, machines = { names = [{ operator = "not_in", values = ["m"] }] } }]
        tolerations = [{ key = "k", operator = "exists", effect = "NoSchedule" }]
        ports = [{ number = 80 }, { number = 53, protocol = "UDP", address = "10.0.0.1" }]
        rules = [
            { anti_affinity = { level = "machine" } },
            { affinity = [{ tasks = "same_job", level = "rack" }] },
            { prefer = { near = { level = "rack" }, weight = -5 } },
            { max_per_domain = { of = { level = "rack" }, count = 2 } },
            { max_share = { level = "zone", percent = 50 } },
            { max_colocated = { of = { level = "rack", tasks = "same_job" }, count = 2 } },
            { runtime_affinity = { level = "rack", tasks = "same_job" } },
            { spread = { level = "rack", skew_max = 1, schedule_anyway = true } },
            { anti_affinity = { level = "rack", tasks = { labelled = { tenants = { named = ["t"] },
              labels = [{ key = "app", operator = "exists" }] } } } },
        ]
    "#;

    #[test]
    fn a_file_says_all_that_a_job_has() {
        let file: JobFile = toml::from_str(ALL).unwrap();
        let job = file.job(&Kinds::standard(), Path::new("job.toml")).unwrap();
        assert_eq!((&*job.tenant, &*job.scheduler, job.gang_min), ("default", "default", Some(2)));
        assert_eq!(job.gang_timeout_ms, Some(30_000));
        assert_eq!(
            (job.runtime_estimate_ms, job.deadline_ms),
            (Some(1500), Some(1_764_000_000_000))
        );
        let group = &job.groups[0];
        assert_eq!(group.request.as_slice(), [500, 2 << 30, 0, 1000]);
        assert_eq!(group.with_optional().unwrap().request.as_slice(), [1500, 2 << 30, 0, 1000]);
        assert_eq!(group.rules.tasks.len(), 9);
        let rack = TopologyLevel::Label("rack".into());
        let named = |rule: &TaskRule| {
            matches!(rule, TaskRule::AntiAffinity {
            from: TaskSelector::Labels { .. }, level } if *level == rack)
        };
        assert!(named(&group.rules.tasks[8]), "{:?}", group.rules.tasks[8]);
        assert_eq!(group.rules.ports.len(), 2);
        assert_eq!(group.rules.tolerations.len(), 1);
    }

    #[test]
    fn a_comparison_takes_one_integer() {
        let read = |what: &str| {
            let labels = format!("labels = [{{ key = \"n\", {what} }}]");
            toml::from_str::<JobFile>(&format!(
                "name = \"a\"\n[[group]]\ncount = 1\nrequired = [{{ {labels} }}]\n"
            ))
        };
        read("operator = \"gt\", values = [\"-5\"]").unwrap();
        for (what, expected) in [
            ("operator = \"gt\", values = [\"z\"]", "values of \"n\" are [\"z\"], but gt compares"),
            ("operator = \"lt\", values = [\"1\", \"2\"]", "but lt compares with one integer"),
            ("operator = \"lt\"", "values of \"n\" are [], but lt compares"),
        ] {
            let error = read(what).unwrap_err().to_string();
            assert!(error.contains(expected), "{what}: {error}");
        }
    }

    #[test]
    fn the_job_in_the_docs_requests_the_highest_point_of_its_demand_profile() {
        let docs = include_str!("../../../../../docs/demand-profiles.md");
        let (_, file) = docs.split_once("```toml").unwrap();
        let file: JobFile = toml::from_str(file.split_once("```").unwrap().0).unwrap();
        let job = file.job(&Kinds::standard(), Path::new("job.toml")).unwrap();
        let group = &job.groups[0];
        assert_eq!(group.request.as_slice(), [4000, 4 << 30]);
        assert_eq!(group.demand_profiles[0].points, [500, 500, 1000, 4000, 4000, 2000]);
        let other = ALL.replace(
            "count = 3",
            "count = 3\ndemand_profiles.cpu = [1, 2]\ndemand_profiles.gold = [1]",
        );
        let file: JobFile = toml::from_str(&other).unwrap();
        let refused = file.job(&Kinds::standard(), Path::new("job.toml")).unwrap_err();
        assert!(refused.to_string().contains("gold"), "{refused}");
    }

    #[test]
    fn the_job_in_the_docs_has_a_program() {
        let docs = include_str!("../../../../../docs/run-programs.md");
        let (_, file) = docs.split_once("```toml").unwrap();
        let file: JobFile = toml::from_str(file.split_once("```").unwrap().0).unwrap();
        let job = file.job(&Kinds::standard(), Path::new("job.toml")).unwrap();
        let run = job.groups[0].run.as_ref().unwrap();
        assert_eq!((&*run.command, run.args.len(), run.restart.attempts), ("/bin/sh", 2, 3));
        assert_eq!((&job.groups[0].any_ports[..], run.ports.len()), (&["http".into()][..], 0));
        let health = run.health.as_ref().unwrap();
        assert_eq!(
            health.probe,
            omega_core::Probe::NamedHttp { port: "http".into(), path: "/".into() }
        );
        assert_eq!((health.interval_ms, health.timeout_ms, health.failures), (5000, 1000, 3));
    }

    #[test]
    fn a_payload_is_a_text_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bytes"), [0, 159, 1]).unwrap();
        std::fs::write(folder.path().join("large"), vec![0; (64 << 10) + 1]).unwrap();
        let job = |line: &str| {
            let text = format!("name = \"a\"\n[[group]]\ncount = 1\n{line}");
            let file: JobFile = toml::from_str(&text).unwrap();
            file.job(&Kinds::standard(), &folder.path().join("job.toml"))
        };
        let payload = |line: &str| job(line).unwrap().groups[0].payload.as_bytes().to_vec();
        assert_eq!(payload("payload = \"text\""), b"text");
        assert_eq!(payload("payload_file = \"bytes\""), [0, 159, 1]);
        let why = |line: &str| job(line).unwrap_err().to_string();
        assert!(why("payload_file = \"large\"").contains("larger than 65536 bytes"));
        assert!(why("payload_file = \"missing\"").contains("group[0].payload_file: "));
        assert!(why("payload = \"a\"\npayload_file = \"bytes\"").contains("not both"));
        let health = "run = { command = \"a\", health = { tcp = 1, command = [\"a\"] } }";
        assert!(why(health).contains("exactly one of command, tcp and http"));
    }

    #[test]
    fn a_program_has_no_empty_user_and_no_short_delay() {
        let why = |field: &str| {
            let run = format!("run = {{ command = \"a\", {field} }}");
            let text = format!("name = \"a\"\n[[group]]\ncount = 1\n{run}");
            let file: JobFile = toml::from_str(&text).unwrap();
            let job = file.job(&Kinds::standard(), Path::new("job.toml"));
            job.err().map_or_else(String::new, |error| error.to_string())
        };
        assert!(why("user = \"\"").contains("group[0].run.user: is empty"));
        let delay =
            |delay: &str| why(&format!("restart = {{ attempts = 1, delay = \"{delay}\" }}"));
        assert!(delay("10ms").contains("group[0].run.restart.delay: 10ms is too short"));
        assert_eq!(delay("100ms"), "");
    }

    #[test]
    fn the_schema_in_the_docs_is_of_these_types() {
        let schema = |schema: schemars::Schema| {
            serde_json::to_string_pretty(schema.as_value()).unwrap() + "\n"
        };
        let generator = || schemars::generate::SchemaSettings::draft07().into_generator();
        let files = [
            ("job", schema(generator().into_root_schema_for::<JobFile>())),
            ("machines", schema(generator().into_root_schema_for::<MachinesFile>())),
            ("transaction", schema(generator().into_root_schema_for::<TransactionFile>())),
        ];
        for (name, made) in files {
            let path = format!("{}/../docs/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("OMEGA_BLESS").is_some() {
                std::fs::write(&path, &made).unwrap();
            }
            assert_eq!(
                std::fs::read_to_string(&path).unwrap_or_default(),
                made,
                "OMEGA_BLESS=1 writes it"
            );
        }
    }
}
