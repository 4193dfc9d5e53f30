//! Writing of the two tables, so that reading them returns an equal cell and equal jobs.
//!
//! A rule that the tables cannot express is left out, and counted for the caller. Each item is parsed as soon as it is
//! written, so that a label with a semicolon does not become another rule.

use super::amounts::RESOURCE;
use super::forms;
use omega_core::{
    Amounts, KindId, Kinds, Labels, Machine, Operator, PlacementRules, Port, Protocol, Requirement,
    Spread, Taint, TaintEffect, TaskRule, TaskSelector, Toleration, TolerationOperator,
    TopologyLevel, WhenUnsatisfiable,
};
use std::fmt::Write;

/// The columns of rules, in the order of [`Rules`].
const RULES: [&str; 6] = ["labels", "require", "tolerate", "spread", "anti_affinity", "ports"];

/// The rules of a group, as fields of the table of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    fields: [String; RULES.len()],
    /// Number of rules and preferences that no field can express.
    pub left_out: u64,
}

/// One row of the table of jobs.
#[derive(Clone, Debug)]
pub struct JobRow<'a> {
    /// Name of the job.
    pub name: &'a str,
    /// Number of tasks.
    pub count: u32,
    /// Request of each task, by the kinds of the tables.
    pub request: &'a Amounts,
    /// Number of devices, and the requested part of each in thousandths.
    pub devices: Option<(u8, u16)>,
    /// Arrival time.
    pub at_ms: u64,
    /// Run time of the tasks; `None` means that they run forever.
    pub run_ms: Option<u64>,
    /// `service` or `batch`.
    pub kind: &'a str,
    /// Precedence of the tasks.
    pub precedence: i32,
    /// Tenant of the job.
    pub tenant: &'a str,
    /// Number of tasks that must be placed together.
    pub gang: Option<u32>,
    /// Rules of the tasks.
    pub rules: &'a Rules,
}

/// Header of a table of machines with these kinds.
#[must_use]
pub fn machines_header(kinds: &Kinds) -> String {
    format!("name,cpu,memory,disk,gpu,labels,taints{}\n", more_header(kinds))
}

/// Header of a table of jobs with these kinds.
#[must_use]
pub fn jobs_header(kinds: &Kinds) -> String {
    let rules = RULES.join(",");
    format!(
        "name,count,cpu,memory,disk,gpu,gpu_share,arrival_s,run_s,kind,precedence,tenant,gang,{rules}{}\n",
        more_header(kinds)
    )
}

/// Returns the row of a machine under this name. The amounts are the capacities after overcommit.
#[must_use]
pub fn machine_row(name: &str, machine: &Machine, kinds: &Kinds) -> String {
    let claimable = |kind: KindId| machine.claimable(kind);
    let devices = if machine.devices > 0 { machine.devices.to_string() } else { String::new() };
    let label = |(key, value): (&omega_core::Text, &omega_core::Text)| format!("{key}={value}");
    let labels = said(machine.labels.iter().map(label), |text| forms::labels(text).is_ok());
    let taints = said(machine.taints.iter().map(taint), |text| forms::taint(text).is_ok());
    let mut row = field(name);
    write_amounts(&mut row, kinds, claimable);
    for text in [&devices, &labels, &taints] {
        push(&mut row, text);
    }
    write_more(&mut row, kinds, claimable);
    row + "\n"
}

/// The row of a job.
#[must_use]
pub fn job_row(job: &JobRow<'_>, kinds: &Kinds) -> String {
    let asked = |kind: KindId| job.request.get(kind);
    let mut row = format!("{},{}", field(job.name), job.count);
    write_amounts(&mut row, kinds, asked);
    let or_none = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    push(&mut row, &or_none(job.devices.map(|(count, _)| u64::from(count))));
    push(&mut row, &or_none(job.devices.map(|(_, share)| u64::from(share))));
    push(&mut row, &thousandths(job.at_ms));
    push(&mut row, &job.run_ms.map_or(String::new(), thousandths));
    push(&mut row, job.kind);
    push(&mut row, &job.precedence.to_string());
    push(&mut row, job.tenant);
    push(&mut row, &or_none(job.gang.map(u64::from)));
    job.rules.fields.iter().for_each(|rule| push(&mut row, rule));
    write_more(&mut row, kinds, asked);
    row + "\n"
}

impl Rules {
    /// Converts the labels and rules that the table can express, and counts the other rules.
    #[must_use]
    pub fn of(labels: &Labels, rules: &PlacementRules) -> Rules {
        let mut made = Rules::default();
        for (key, value) in labels.iter() {
            made.item(0, Some(format!("{key}={value}")), |text| forms::labels(text).is_ok());
        }
        match rules.affinity.required.as_deref() {
            Some([one]) if one.names.is_empty() => {
                for wanted in &one.labels {
                    let text = requirement(wanted);
                    made.item(1, text, |text| forms::requirement(text).as_ref() == Ok(wanted));
                }
            }
            Some(_) => made.left_out += 1,
            None => {}
        }
        for wanted in &rules.tolerations {
            let text = Some(toleration(wanted));
            made.item(2, text, |text| forms::toleration(text).as_ref() == Ok(wanted));
        }
        for rule in &rules.tasks {
            match rule {
                TaskRule::Spread(wanted) => {
                    made.item(3, spread(wanted), |text| forms::spread(text).as_ref() == Ok(wanted));
                }
                TaskRule::AntiAffinity { from: TaskSelector::SameJob, level: wanted } => {
                    let text = Some(level(wanted).to_owned());
                    made.item(4, text, |text| forms::level(text).as_ref() == Ok(wanted));
                }
                _ => made.left_out += 1,
            }
        }
        for wanted in &rules.ports {
            made.item(5, port(wanted), |text| forms::port(text).as_ref() == Ok(wanted));
        }
        made.left_out += u64::from(rules.machine.is_some()) + rules.affinity.preferred.len() as u64;
        made
    }

    /// Adds an item to a field if it parses back unchanged.
    fn item(&mut self, i: usize, text: Option<String>, is_meant: impl Fn(&str) -> bool) {
        let text = text.filter(|text| is_sound(text) && is_meant(text));
        match text {
            None => self.left_out += 1,
            Some(text) if self.fields[i].is_empty() => self.fields[i] = text,
            Some(text) => {
                self.fields[i].push(';');
                self.fields[i] += &text;
            }
        }
    }
}

/// Whether an item of a list parses back unchanged.
fn is_sound(text: &str) -> bool {
    !text.contains(';') && text.trim() == text && !text.chars().any(char::is_control)
}

/// Makes a list of the items that parse back unchanged.
fn said(items: impl Iterator<Item = String>, is_meant: impl Fn(&str) -> bool) -> String {
    items.filter(|text| is_sound(text) && is_meant(text)).collect::<Vec<_>>().join(";")
}

fn requirement(wanted: &Requirement) -> Option<String> {
    let (key, values) = (&wanted.key, &wanted.values);
    let text = match (wanted.operator, &values[..]) {
        (Operator::In, [one]) => format!("{key}={one}"),
        (Operator::NotIn, [one]) => format!("{key}!={one}"),
        (Operator::In, _) => format!("{key} in {}", values.join("|")),
        (Operator::NotIn, _) => format!("{key} notin {}", values.join("|")),
        (Operator::Gt, [one]) => format!("{key}>{one}"),
        (Operator::Lt, [one]) => format!("{key}<{one}"),
        (Operator::Exists, _) => format!("{key} exists"),
        (Operator::DoesNotExist, _) => format!("{key} absent"),
        _ => return None,
    };
    Some(text)
}

fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

fn taint(taint: &Taint) -> String {
    match &*taint.value {
        "" => format!("{}:{}", taint.key, effect(taint.effect)),
        value => format!("{}={value}:{}", taint.key, effect(taint.effect)),
    }
}

fn toleration(wanted: &Toleration) -> String {
    let Some(key) = &wanted.key else { return "*".to_owned() };
    let value = match wanted.operator {
        TolerationOperator::Equal => format!("={}", wanted.value),
        TolerationOperator::Exists => String::new(),
    };
    let ending = wanted.effect.map_or(String::new(), |kind| format!(":{}", effect(kind)));
    format!("{key}{value}{ending}")
}

fn level(level: &TopologyLevel) -> &str {
    match level {
        TopologyLevel::Machine => "machine",
        TopologyLevel::Label(key) => key,
    }
}

fn spread(wanted: &Spread) -> Option<String> {
    let soft = if wanted.when == WhenUnsatisfiable::ScheduleAnyway { ":soft" } else { "" };
    Some(format!("{}:{}{soft}", level(&wanted.level), wanted.skew_max))
}

fn port(wanted: &Port) -> Option<String> {
    let protocol = match wanted.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    };
    wanted.address.is_none().then(|| format!("{}/{protocol}", wanted.number))
}

/// Writes the amounts of CPU, memory and disk, whose kinds are found by name.
fn write_amounts(row: &mut String, kinds: &Kinds, amount: impl Fn(KindId) -> u64) {
    let of = |name: &str| kinds.by_name(name).map_or(0, &amount);
    push(row, &thousandths(of("cpu")));
    push(row, &of("memory").to_string());
    push(row, &of("disk").to_string());
}

/// The kinds that have no column in the standard tables.
fn more(kinds: &Kinds) -> impl Iterator<Item = (KindId, &str)> {
    let own = |name: &str| ["cpu", "memory", "disk", "gpu"].contains(&name);
    kinds.iter().map(|(id, kind)| (id, &*kind.name)).filter(move |(_, name)| !own(name))
}

fn more_header(kinds: &Kinds) -> String {
    more(kinds).map(|(_, name)| format!(",{}", field(&format!("{}{name}", RESOURCE)))).collect()
}

fn write_more(row: &mut String, kinds: &Kinds, amount: impl Fn(KindId) -> u64) {
    more(kinds).for_each(|(kind, _)| push(row, &amount(kind).to_string()));
}

/// A number of thousandths as a decimal.
fn thousandths(number: u64) -> String {
    match number % 1000 {
        0 => (number / 1000).to_string(),
        rest => format!("{}.{rest:03}", number / 1000).trim_end_matches('0').to_owned(),
    }
}

fn push(row: &mut String, text: &str) {
    write!(row, ",{}", field(text)).expect("a string takes what is written");
}

/// A field, quoted if needed.
fn field(text: &str) -> String {
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::load;
    use crate::testing::folder;
    use omega_core::{Affinity, MachineSelector, Preferred};

    #[test]
    fn what_is_written_reads_back() {
        let machines = "name,cpu,memory,disk,gpu,labels,taints,resource:fpga\n\
            a,0.5,1500,2000,8,os=linux;rack=r1;tier=,gpu=yes:NoSchedule;old:NoExecute,3\n";
        let jobs = "name,count,cpu,memory,disk,gpu,gpu_share,arrival_s,run_s,kind,precedence,tenant,gang,\
            labels,require,tolerate,spread,anti_affinity,ports,resource:fpga\n\
            \"a,\"\"b\",9,0.001,103,1,2,250,1.5,60.025,service,-3,ann,4,app=web,\
            os=linux;zone in a|b;n>5;old absent;x!=y;z exists;q notin a|b,\
            gpu=yes:NoSchedule;old;*,rack:2;zone:1:soft,machine,8080/tcp;9090/udp,1\n";
        let dir = folder(&[("m.csv", machines), ("j.csv", jobs)]);
        let read = load(&dir.path().join("m.csv"), &dir.path().join("j.csv")).unwrap();
        let machine = &read.machines[0];
        let row = machine_row(&machine.name, machine, &read.kinds);
        assert_eq!(machines_header(&read.kinds) + &row, machines);
        let (arrival, job) = (&read.arrivals[0], &read.arrivals[0].job);
        let group = &job.groups[0];
        let rules = Rules::of(&group.labels, &group.rules);
        assert_eq!(rules.left_out, 0);
        let row = JobRow {
            name: &job.name,
            count: group.count,
            request: &group.request,
            devices: group.devices.map(|devices| (devices.count, devices.milli_each)),
            at_ms: arrival.at_ms,
            run_ms: arrival.run.of(0),
            kind: "service",
            precedence: job.precedence.0,
            tenant: &job.tenant,
            gang: job.gang_min,
            rules: &rules,
        };
        assert_eq!(jobs_header(&read.kinds) + &job_row(&row, &read.kinds), jobs);
    }

    #[test]
    fn what_cannot_be_said_is_counted_and_not_written() {
        let machines = |value: &str| MachineSelector::label("os", value);
        let preferred = vec![Preferred { weight: 1, machines: machines("x") }];
        let required = Some(vec![machines("a;b"), machines("c")]);
        let odd = PlacementRules {
            affinity: Affinity { required, preferred },
            ports: vec![Port { address: Some("::1".into()), ..Port::tcp(80) }],
            ..PlacementRules::default()
        };
        let labels = Labels::new([("a", "b;c"), ("d", "e")]);
        let rules = Rules::of(&labels, &odd);
        assert_eq!((rules.fields[0].as_str(), rules.left_out), ("d=e", 4));
        let one = PlacementRules {
            affinity: Affinity { required: Some(vec![machines("a;b")]), preferred: Vec::new() },
            ..PlacementRules::default()
        };
        assert_eq!(Rules::of(&Labels::default(), &one).left_out, 1);
    }
}
