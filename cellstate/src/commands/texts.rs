//! Validation of all texts of machines and jobs by the rule of [`omega_core::text`].

use omega_core::text::{TextFlaw, check_name, check_value};
use omega_core::{
    Labels, Machine, MachineSelector, PlacementRules, Rejection, Requirement, TaskRule,
    TaskSelector, Tenants, Text, TopologyLevel,
};

/// Number of characters of a text that an error message contains.
const SHOWN_MAX: usize = 64;

type Checked = Result<(), Rejection>;

fn refused(what: &str, text: &str, flaw: TextFlaw) -> Rejection {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    Rejection::BadName(format!("{what} {shown:?} {flaw}").into())
}

/// Checks a name. `what` describes the named object in an error message.
pub fn name(what: &str, text: &Text) -> Checked {
    check_name(text).map_err(|flaw| refused(what, text, flaw))
}

/// Checks a text that may be empty.
fn value(what: &str, text: &Text) -> Checked {
    check_value(text).map_err(|flaw| refused(what, text, flaw))
}

/// Checks labels. Keys must be valid names; values may be empty.
pub fn labels(labels: &Labels) -> Checked {
    labels.iter().try_for_each(|(key, of_key)| {
        name("label key", key)?;
        value("label value", of_key)
    })
}

/// Checks the texts of a machine, except its labels.
pub fn machine(machine: &Machine) -> Checked {
    machine.images.iter().try_for_each(|image| name("image", &image.name))?;
    machine.taints.iter().try_for_each(|taint| {
        value("taint key", &taint.key)?;
        value("taint value", &taint.value)
    })
}

/// Checks the texts of a machine selector.
pub fn selector(selector: &MachineSelector) -> Checked {
    requirements(&selector.labels)?;
    requirements(&selector.names)
}

fn requirements(requirements: &[Requirement]) -> Checked {
    requirements.iter().try_for_each(|requirement| {
        value("selector key", &requirement.key)?;
        requirement.values.iter().try_for_each(|text| value("selector value", text))
    })
}

/// Checks the texts of a group's rules.
pub fn rules(rules: &PlacementRules) -> Checked {
    rules.machine.iter().try_for_each(|machine| name("machine", machine))?;
    rules.tolerations.iter().try_for_each(|toleration| {
        toleration.key.iter().try_for_each(|key| value("toleration key", key))?;
        value("toleration value", &toleration.value)
    })?;
    let addresses = rules.ports.iter().filter_map(|port| port.address.as_ref());
    addresses.into_iter().try_for_each(|address| value("port address", address))?;
    rules.affinity.required.iter().flatten().try_for_each(selector)?;
    rules.affinity.preferred.iter().try_for_each(|preferred| selector(&preferred.machines))?;
    rules.tasks.iter().try_for_each(task_rule)
}

fn task_rule(rule: &TaskRule) -> Checked {
    let both = |tasks: &TaskSelector, at: &TopologyLevel| {
        level(at)?;
        tasks_of(tasks)
    };
    match rule {
        TaskRule::AntiAffinity { from: tasks, level }
        | TaskRule::MaxPerDomain { of: tasks, level, .. }
        | TaskRule::MaxColocated { of: tasks, level, .. } => both(tasks, level),
        TaskRule::Affinity(terms) => {
            terms.iter().try_for_each(|near| both(&near.tasks, &near.level))
        }
        TaskRule::Prefer { near, .. } | TaskRule::RuntimeAffinity(near) => {
            both(&near.tasks, &near.level)
        }
        TaskRule::Spread(spread) => both(&spread.of, &spread.level),
        TaskRule::MaxShare { level: at, .. } => level(at),
        _ => Ok(()),
    }
}

fn level(level: &TopologyLevel) -> Checked {
    match level {
        TopologyLevel::Machine => Ok(()),
        TopologyLevel::Label(key) => value("topology label", key),
    }
}

fn tasks_of(tasks: &TaskSelector) -> Checked {
    let TaskSelector::Labels { tenants, labels } = tasks else { return Ok(()) };
    requirements(&labels.requirements)?;
    match tenants {
        Tenants::Named(names) => names.iter().try_for_each(|tenant| value("tenant", tenant)),
        Tenants::Own | Tenants::Any => Ok(()),
    }
}
