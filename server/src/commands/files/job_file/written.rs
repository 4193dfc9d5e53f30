//! Conversion of a job to a file, which `omega job get -o toml` prints, and `omega job submit` reads without loss.

use super::{CoresFile, DevicesFile, GroupFile, JobFile, KindFile, PlaceFile, PreemptionFile};
use crate::commands::CommandError;
use crate::commands::files::moment::Moment;
use crate::commands::files::rules_file::{RuleFile, implied};
use crate::commands::files::time_file::TimeFile;
use omega_client::restart::RESTARTED_AT;
use omega_core::{
    Amounts, CorePlace, DeviceRequest, Job, JobKind, KindId, Kinds, OptionalResources, Preemption,
    TaskGroup, TaskRule, Text, Unit,
};
use omega_workload::amount::Amount;
use std::collections::BTreeMap;

impl JobFile {
    /// The file for a job of a cell with these kinds.
    ///
    /// # Errors
    /// If a payload is not text, so that it needs a file of its own.
    pub(in crate::commands) fn written(job: &Job, kinds: &Kinds) -> Result<JobFile, CommandError> {
        let groups = job.groups.iter().enumerate();
        Ok(JobFile {
            name: job.name.to_string(),
            tenant: job.tenant.to_string(),
            scheduler: job.scheduler.to_string(),
            kind: match job.kind {
                JobKind::Service => KindFile::Service,
                JobKind::Batch => KindFile::Batch,
            },
            precedence: job.precedence.0,
            preemption: match job.preemption {
                Preemption::LowerPrecedence => PreemptionFile::LowerPrecedence,
                Preemption::Never => PreemptionFile::Never,
            },
            gang_min: job.gang_min,
            gang_timeout: job.gang_timeout_ms.map(|ms| TimeFile::from_millis(ms.into())),
            run_time: job.runtime_estimate_ms.map(TimeFile::from_millis),
            deadline: job.deadline_ms.map(Moment::At),
            update: job.update.map(Into::into),
            group: groups
                .map(|(index, group)| GroupFile::written(group, job.kind, kinds, index))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The text of the file.
    pub(in crate::commands) fn to_toml(&self) -> String {
        toml::to_string(self).expect("the keys are text, and memory takes all that is written")
    }
}

impl GroupFile {
    fn written(
        group: &TaskGroup,
        kind: JobKind,
        kinds: &Kinds,
        index: usize,
    ) -> Result<GroupFile, CommandError> {
        let strings = |list: &[Text]| list.iter().map(ToString::to_string).collect();
        let payload = group.payload.as_bytes();
        let payload = std::str::from_utf8(payload).map_err(|_| CommandError::Field {
            place: format!("group[{index}].payload"),
            why: "is not text: keep it in a file of its own, and name that file with payload_file"
                .to_owned(),
        })?;
        let optional = group.optional.as_ref();
        let rules = &group.rules;
        Ok(GroupFile {
            name: group.name.to_string(),
            count: group.count,
            per_machine: group.per_machine,
            request: amounts(kinds, &group.request, group.devices.is_some()),
            demand_profiles: group
                .demand_profiles
                .iter()
                .filter_map(|profile| {
                    let kind = kinds.get(profile.kind)?;
                    let points = profile.points.iter().map(|point| amount(*point, kind.unit));
                    Some((kind.name.clone(), points.collect()))
                })
                .collect(),
            devices: group.devices.map(Into::into),
            cores: group.cores.map(|cores| CoresFile {
                count: cores.count,
                place: match cores.place {
                    CorePlace::AnyNodes => PlaceFile::AnyNodes,
                    CorePlace::OneNode => PlaceFile::OneNode,
                },
            }),
            optional: optional.map_or_else(BTreeMap::new, |optional: &OptionalResources| {
                amounts(kinds, &optional.amounts, optional.devices.is_some())
            }),
            optional_devices: optional.and_then(|optional| optional.devices).map(Into::into),
            cluster_request: amounts(kinds, &group.cluster_request, false),
            labels: group
                .labels
                .iter()
                .filter(|(key, _)| ***key != *RESTARTED_AT)
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            restarts: group.restarts,
            grace: (group.grace_ms > 0).then(|| TimeFile::from_millis(group.grace_ms.into())),
            images: strings(&group.images),
            run: group.run.as_deref().map(Into::into),
            payload: (!payload.is_empty()).then(|| payload.to_owned()),
            payload_file: None,
            volumes: strings(&group.volumes),
            machine: rules.machine.as_ref().map(ToString::to_string),
            required: rules
                .affinity
                .required
                .as_ref()
                .map(|any| any.iter().map(Into::into).collect()),
            preferred: rules.affinity.preferred.iter().map(Into::into).collect(),
            tolerations: rules.tolerations.iter().map(Into::into).collect(),
            rules: task_rules(group, kind),
            ports: group.into(),
        })
    }
}

/// The rules of a group of a job of this kind; `None` if it has the same rules without `rules` in its file.
fn task_rules(group: &TaskGroup, kind: JobKind) -> Option<Vec<RuleFile>> {
    let implied = implied::rule(kind, group.per_machine);
    let rules = &group.rules.tasks;
    if rules.iter().eq(&implied) {
        return None;
    }
    let is_written = |rule: &&TaskRule| !group.per_machine || implied.as_ref() != Some(*rule);
    Some(rules.iter().filter(is_written).map(Into::into).collect())
}

impl From<DeviceRequest> for DevicesFile {
    fn from(devices: DeviceRequest) -> DevicesFile {
        DevicesFile { count: devices.count, milli_each: devices.milli_each }
    }
}

/// Amounts by kind. If there are devices, the amount of `gpu` is written even if it is 0, because it would otherwise be
/// derived from them.
fn amounts(kinds: &Kinds, amounts: &Amounts, has_devices: bool) -> BTreeMap<String, Amount> {
    let is_written = |id: KindId, name: &str| amounts.get(id) > 0 || (has_devices && name == "gpu");
    let written = kinds.iter().filter(|(id, kind)| is_written(*id, &kind.name));
    written.map(|(id, kind)| (kind.name.clone(), amount(amounts.get(id), kind.unit))).collect()
}

/// The shortest exact text of an amount: `2`, `500m`, `16GiB`.
fn amount(value: u64, unit: Unit) -> Amount {
    let of = |unit: u64| value > 0 && value.is_multiple_of(unit);
    let text = match unit {
        Unit::Milli if value.is_multiple_of(1000) => (value / 1000).to_string(),
        Unit::Milli => format!("{value}m"),
        Unit::Bytes if of(1 << 40) => format!("{}TiB", value >> 40),
        Unit::Bytes if of(1 << 30) => format!("{}GiB", value >> 30),
        Unit::Bytes if of(1 << 20) => format!("{}MiB", value >> 20),
        Unit::Bytes if of(1 << 10) => format!("{}KiB", value >> 10),
        _ => value.to_string(),
    };
    text.parse().expect("it has digits and a known unit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const ALL: &str = r#"
        name = "web"
        kind = "service"
        scheduler = "s"
        tenant = "t"
        precedence = -10
        preemption = "never"
        gang_min = 2
        gang_timeout = "90s"
        run_time = "1.5s"
        deadline = "@1764000000.250"

        [update]
        max_unavailable = 1
        min_healthy_time = "10s"
        on_failure = "rollback"

        [[group]]
        count = 3
        request = { cpu = 0.5, memory = "2GiB", disk = 1025 }
        devices = { count = 1, milli_each = 500 }
        optional = { cpu = 1 }
        demand_profiles.cpu = [0.25, 0.5]
        labels = { app = "web" }
        images = ["nginx:1"]
        restarts = 70000
        grace = "30s"
        volumes = ["data"]
        machine = "m"
        payload = "a\n\"b\""
        cores = { count = 1, place = "one_node" }
        run = { command = "/bin/sh", args = ["-c", "echo 'a' \"b\"\n"], env = { A = "b" }, working_dir = "/", user = "www", restart = { attempts = 3, delay = "250ms" }, health = { http = { port = 80 }, interval = "5s", start_period = "1m" } }
        required = [{ labels = [{ key = "zone", operator = "gt", values = ["3"] }], names = [{ values = ["m"] }] }]
        preferred = [{ weight = 5, machines = { names = [{ operator = "not_in", values = ["m"] }] } }]
        tolerations = [{ key = "k", operator = "exists", effect = "NoSchedule" }, { key = "l", value = "v" }]
        ports = [{ number = 80, name = "http" }, { number = 53, protocol = "UDP", address = "10.0.0.1" }]
        rules = [
            { anti_affinity = { level = "machine" } },
            { affinity = [{ tasks = "same_job", level = "rack" }] },
            { prefer = { near = { level = "rack" }, weight = -5 } },
            { max_per_domain = { of = { level = "rack" }, count = 2 } },
            { max_share = { level = "zone", percent = 50 } },
            { max_colocated = { of = { level = "rack", tasks = "same_job" }, count = 2 } },
            { runtime_affinity = { level = "rack", tasks = "same_job" } },
            { spread = { level = "rack", skew_max = 1, schedule_anyway = true, honors_taints = true } },
            { anti_affinity = { level = "rack", tasks = { labelled = { tenants = { named = ["t"] },
              labels = [{ key = "app", operator = "exists" }] } } } },
        ]

        [[group]]
        name = "second"
        per_machine = true
        ports = { http = "any", metrics = 9100 }
        run = { command = "serve", health = { tcp = "http" } }
        devices = { count = 2 }
        request = { gpu = 0 }
    "#;

    #[test]
    fn a_job_that_is_written_and_read_is_equal() {
        let kinds = Kinds::standard();
        let job = |text: &str| {
            let file: JobFile = toml::from_str(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
            file.job(&kinds, Path::new("job.toml")).unwrap()
        };
        let first = job(ALL);
        let text = JobFile::written(&first, &kinds).unwrap().to_toml();
        assert_eq!(job(&text), first, "{text}");
        let restarted = omega_client::restart::restarted(&first, 5);
        assert_eq!(JobFile::written(&restarted, &kinds).unwrap().to_toml(), text);
        assert_eq!(first.deadline_ms, Some(1_764_000_000_250));
        assert!(text.contains("memory = \"2GiB\"") && text.contains("cpu = \"500m\""), "{text}");
        let json = serde_json::to_string(&JobFile::written(&first, &kinds).unwrap()).unwrap();
        let file: JobFile = serde_json::from_str(&json).unwrap();
        assert_eq!(file.job(&kinds, Path::new("job.json")).unwrap(), first, "{json}");
    }

    #[test]
    fn a_service_without_rules_prefers_machines_with_fewer_of_its_tasks() {
        let kinds = Kinds::standard();
        let rules = |first: &str, group: &str| {
            let text = format!("name = 'web'\n{first}\n[[group]]\ncount = 2\n{group}\n");
            let file: JobFile = toml::from_str(&text).expect("a job");
            let job = file.job(&kinds, Path::new("job.toml")).expect("it is complete");
            let written = JobFile::written(&job, &kinds).expect("text").to_toml();
            let again: JobFile = toml::from_str(&written).expect("a job");
            assert_eq!(again.job(&kinds, Path::new("job.toml")).expect("a job"), job, "{written}");
            assert_eq!(written.contains("rules"), group.contains("rules"), "{written}");
            job.groups[0].rules.tasks.clone()
        };
        let (service, batch) = ("kind = 'service'", "");
        let spread = implied::rule(JobKind::Service, false);
        assert!(matches!(&spread, Some(TaskRule::Spread(spread)) if spread.counts_itself));
        assert_eq!(rules(service, "").first(), spread.as_ref());
        assert_eq!(rules(service, "rules = []"), []);
        assert_eq!(rules(batch, ""), []);
        assert_eq!(
            rules(service, "rules = [{ max_share = { level = 'rack', percent = 50 } }]").len(),
            1
        );
        let apart = implied::rule(JobKind::Service, true);
        assert_eq!(rules(service, "per_machine = true").first(), apart.as_ref());
    }

    #[test]
    fn a_payload_of_bytes_is_told() {
        let mut job = Job::batch("a", TaskGroup::new(1, Amounts::zero()));
        job.groups[0].payload = vec![0, 255].into();
        let why = JobFile::written(&job, &Kinds::standard()).unwrap_err().to_string();
        assert!(why.contains("group[0].payload: is not text"), "{why}");
    }
}
