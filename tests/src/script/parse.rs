//! The keys of a script's machines and jobs.
//!
//! | key of a job | means |
//! |---|---|
//! | `tasks=2 cpu=1 mem=1` | number of tasks, and amounts that each claims |
//! | `optional=cpu:2 optional=devices:1` | optional resources of each, taken where they are free |
//! | `of-cell=cpu:2` | cluster resources that each claims |
//! | `tenant=t precedence=5 restarts=1 devices=1` | tenant, precedence, restarts, whole devices |
//! | `gang=2 hold=30` | minimum size of the gang, and its timeout in ms |
//! | `runs=10` | expected run time of a task, in ms |
//! | `demand_profile=cpu:4,1,1` | amounts in each part of the day; the highest is requested |
//! | `label=app:web` | label by which other jobs select its tasks |
//! | `port=80`, `port=10.0.0.1:80` | a TCP port, on every address or on one |
//! | `require=disk:ssd`, `tolerate=old` | label of the machines that it needs, taint that it tolerates |
//! | `apart=zone`, `apart-from=app:web@zone` | anti-affinity within the job, and to other tasks |
//! | `near=app:web@zone` | affinity to the selected tasks |
//! | `beside=app:web:2@zone` | at most two of the selected tasks in its domain |
//! | `runtime_affinity=app:web@zone` | a selected task in its domain as long as it runs |
//! | `max=1@zone`, `share=50@zone`, `spread=1@zone` | maximum number, percentage and skew per domain |
//!
//! The level `machine` means that each machine is a domain.

use omega_core::{
    Amounts, Band, DemandProfile, DeviceRequest, EvictionCap, Job, KindId, Kinds, LabelSelector,
    Labels, Machine, MachineSelector, Near, OptionalResources, Overcommit, Policy, Port,
    Precedence, Requirement, Reservation, ResourceKind, Spread, Taint, TaintEffect, TaskGroup,
    TaskRule, TaskSelector, TenantConfig, Tenants, Toleration, TolerationOperator, TopologyLevel,
    Unit,
};

/// The kinds of a script's cell.
pub(super) fn kinds() -> Kinds {
    let kind = |name: &str, compressible| ResourceKind {
        name: name.to_owned(),
        unit: Unit::Count,
        compressible,
    };
    Kinds::new(vec![kind("cpu", true), kind("mem", false)]).expect("two names")
}

/// Parses a number. If the text is not a number, panics with the text.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

fn pair<'a>(text: &'a str, by: &str) -> (&'a str, &'a str) {
    text.split_once(by).unwrap_or_else(|| panic!("no {by} in {text}"))
}

fn kind(name: &str) -> Option<KindId> {
    kinds().by_name(name)
}

/// Sets one amount from `cpu=4`.
pub(super) fn amount(text: &str, amounts: &mut Amounts) {
    let (name, value) = pair(text, "=");
    let kind = kind(name).unwrap_or_else(|| panic!("no resource kind: {name}"));
    amounts.set(kind, number(value));
}

/// Parses a factor such as `cpu:150`.
pub(super) fn overcommit(text: &str) -> Overcommit {
    let (name, percent) = pair(text, ":");
    let kind = kind(name).unwrap_or_else(|| panic!("no resource kind: {name}"));
    Overcommit::none().with(kind, number(percent))
}

/// Makes a machine from its keys.
pub(super) fn machine(name: &str, keys: &[&str]) -> Machine {
    let mut machine = Machine::new(name, Amounts::zero());
    let mut labels = Vec::new();
    for text in keys {
        let (key, value) = pair(text, "=");
        match key {
            _ if kind(key).is_some() => amount(text, &mut machine.capacity),
            "devices" => machine.devices = number(value),
            "over" => machine.overcommit = overcommit(value),
            "taint" => {
                let effect = TaintEffect::NoSchedule;
                let taint = Taint { key: value.into(), value: "".into(), effect };
                machine.taints = vec![taint].into();
            }
            _ => labels.push((key, value)),
        }
    }
    machine.labels = Labels::new(labels);
    machine
}

/// Makes a policy from its keys. Ended jobs are removed at once.
pub(super) fn policy(keys: &[&str]) -> Policy {
    let mut policy = Policy::default();
    for text in keys {
        match pair(text, "=") {
            ("over", value) => policy.overcommit_max = overcommit(value),
            ("band", value) => {
                let (from, to) = pair(value, "..");
                let band = Band { from: Precedence(number(from)), to: Precedence(number(to)) };
                policy.bands.push(band);
            }
            ("evictions", value) => {
                let (count, per_ms) = pair(value, "/");
                let cap = EvictionCap { count: number(count), per_ms: number(per_ms) };
                policy.eviction_cap = Some(cap);
            }
            (key, _) => panic!("no key of a policy: {key}"),
        }
    }
    policy
}

/// Makes a tenant's configuration from its keys.
pub(super) fn tenant_config(keys: &[&str]) -> TenantConfig {
    let mut tenant_config = TenantConfig::default();
    for text in keys {
        match pair(text, "=") {
            ("parent", value) => tenant_config.parent = Some(value.into()),
            ("weight", value) => tenant_config.weight = number(value),
            ("per-machine", value) => tenant_config.tasks_per_machine_max = Some(number(value)),
            _ => amount(text, &mut tenant_config.guaranteed),
        }
    }
    tenant_config
}

/// Makes a reservation from its keys.
pub(super) fn reservation(name: &str, keys: &[&str]) -> Reservation {
    let (machines, tenants) = Default::default();
    let mut made = Reservation { name: name.into(), machines, tenants, from_ms: 0, until_ms: 0 };
    for text in keys {
        match pair(text, "=") {
            ("for", tenants) => made.tenants = tenants.split(',').map(Into::into).collect(),
            ("from", at) => made.from_ms = number(at),
            ("until", at) => made.until_ms = number(at),
            ("name", value) => made.machines.names.push(Requirement::equals("", value)),
            (key, value) => made.machines.labels.push(Requirement::equals(key, value)),
        }
    }
    made
}

/// Makes a job with one group from its keys.
pub(super) fn job(name: &str, keys: &[&str]) -> Job {
    let mut job = Job::batch(name, TaskGroup::new(1, Amounts::zero()));
    for text in keys {
        let (key, value) = pair(text, "=");
        match key {
            "tenant" => job.tenant = value.into(),
            "precedence" => job.precedence = Precedence(number(value)),
            "runs" => job.runtime_estimate_ms = Some(number(value)),
            "hold" => job.gang_timeout_ms = Some(number(value)),
            "gang" => job.gang_min = Some(number(value)),
            _ => group(&mut job.groups[0], text),
        }
    }
    job
}

fn group(group: &mut TaskGroup, text: &str) {
    let (key, value) = pair(text, "=");
    let rules = &mut group.rules;
    match key {
        _ if kind(key).is_some() => amount(text, &mut group.request),
        "demand_profile" => {
            let (name, points) = pair(value, ":");
            let kind = kind(name).unwrap_or_else(|| panic!("no resource kind: {name}"));
            let demand_profile =
                DemandProfile { kind, points: points.split(',').map(number).collect() };
            group.request.set(kind, demand_profile.peak());
            group.demand_profiles.push(demand_profile);
        }
        "optional" => {
            let (kind, amount) = pair(value, ":");
            let optional = group.optional.get_or_insert_with(|| OptionalResources {
                amounts: Amounts::zero(),
                devices: None,
            });
            match kind {
                "devices" => {
                    optional.devices =
                        Some(DeviceRequest { count: number(amount), milli_each: 1000 });
                }
                kind => self::amount(&format!("{kind}={amount}"), &mut optional.amounts),
            }
        }
        "of-cell" => amount(&value.replace(':', "="), &mut group.cluster_request),
        "tasks" => group.count = number(value),
        "restarts" => group.restarts = number(value),
        "devices" => group.devices = Some(DeviceRequest { count: number(value), milli_each: 1000 }),
        "label" => group.labels = Labels::new([pair(value, ":")]),
        "port" => rules.ports.push(match value.split_once(':') {
            Some((address, port)) => {
                Port { address: Some(address.into()), ..Port::tcp(number(port)) }
            }
            None => Port::tcp(number(value)),
        }),
        "require" => {
            let (key, value) = pair(value, ":");
            let terms = rules.affinity.required.get_or_insert_default();
            terms.push(MachineSelector::label(key, value));
        }
        "tolerate" => rules.tolerations.push(Toleration {
            key: Some(value.into()),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        }),
        _ => rules.tasks.push(task_rule(key, value)),
    }
}

fn task_rule(key: &str, value: &str) -> TaskRule {
    if key == "apart" {
        return TaskRule::AntiAffinity { from: TaskSelector::SameJob, level: level(value) };
    }
    let (what, at) = pair(value, "@");
    let level = level(at);
    match key {
        "apart-from" => TaskRule::AntiAffinity { from: selector(what), level },
        "beside" => {
            let (of, count) = what.rsplit_once(':').expect("a label and how many");
            TaskRule::MaxColocated { of: selector(of), level, count: number(count) }
        }
        "runtime_affinity" => TaskRule::RuntimeAffinity(Near { tasks: selector(what), level }),
        "near" => TaskRule::Affinity(vec![Near { tasks: selector(what), level }]),
        "max" => TaskRule::MaxPerDomain { of: TaskSelector::SameJob, level, count: number(what) },
        "share" => TaskRule::MaxShare { level, percent: number(what) },
        "spread" => TaskRule::Spread(Spread::new(TaskSelector::SameJob, level, number(what))),
        _ => panic!("no key of a job: {key}"),
    }
}

fn selector(text: &str) -> TaskSelector {
    if text == "same-group" {
        return TaskSelector::SameGroup;
    }
    let (key, value) = pair(text, ":");
    let requirements = vec![Requirement::equals(key, value)];
    TaskSelector::Labels { tenants: Tenants::Any, labels: LabelSelector { requirements } }
}

fn level(text: &str) -> TopologyLevel {
    match text {
        "machine" => TopologyLevel::Machine,
        label => TopologyLevel::Label(label.into()),
    }
}
