//! Visibility of jobs: a caller sees the jobs of its tenants, and an application only the jobs with its name.
//!
//! The properties that are checked never change while a job exists, so a check stays valid until the command is
//! applied. A job that a caller may not see is reported to the caller as nonexistent.

use crate::access::identity::{Caller, Owner, Role};
use crate::access::roles::denied;
use omega_cellstate::Cell;
use omega_client::ApiError;
use omega_core::{Job, JobId, TaskRule, TaskSelector, Tenants};

impl Caller {
    /// Whether the caller sees only some of the jobs.
    pub(crate) fn is_bounded(&self) -> bool {
        match &self.role {
            Role::Reader(tenants) => !tenants.is_empty(),
            Role::Submitter(_) | Role::Application(_) => true,
            _ => false,
        }
    }

    /// Whether the caller may see objects of a tenant.
    pub(crate) fn may_see_tenant(&self, tenant: &str) -> bool {
        match &self.role {
            Role::Reader(tenants) => tenants.is_empty() || has(tenants, tenant),
            Role::Submitter(owner) | Role::Application(owner) => has(&owner.tenants, tenant),
            _ => true,
        }
    }

    /// Whether the caller sees a job.
    pub(crate) fn may_see(&self, job: &Job) -> bool {
        self.may_see_tenant(&job.tenant) && self.is_named_well(&job.name)
    }

    /// Whether the caller may see a job's programs, with environment and payload. Operators may see them, and so may
    /// readers and owners of the job's tenant.
    pub(crate) fn may_see_programs(&self, job: &Job) -> bool {
        match &self.role {
            Role::Operator => true,
            Role::Reader(tenants) => has(tenants, &job.tenant),
            Role::Submitter(_) | Role::Application(_) => self.may_see(job),
            Role::Scheduler(_) | Role::Agent(_) | Role::Replica(_) | Role::Nobody(_) => false,
        }
    }

    /// Whether the caller may see the job with this id. Only callers with access to all jobs may see a job that the
    /// cell has forgotten.
    pub(crate) fn may_see_job(&self, cell: &Cell, id: JobId) -> bool {
        !self.is_bounded() || cell.job(id).is_some_and(|job| self.may_see(job))
    }

    /// Whether a job may have this name. An application's jobs are named after the application, with a dot and a
    /// suffix.
    fn is_named_well(&self, name: &str) -> bool {
        match &self.role {
            Role::Application(owner) => {
                let rest = name.strip_prefix(&*owner.name).and_then(|rest| rest.strip_prefix('.'));
                rest.is_some_and(|rest| !rest.is_empty())
            }
            _ => true,
        }
    }

    fn owner(&self) -> Option<&Owner> {
        match &self.role {
            Role::Submitter(owner) | Role::Application(owner) => Some(owner),
            _ => None,
        }
    }
}

fn has(tenants: &[Box<str>], tenant: &str) -> bool {
    tenants.iter().any(|own| **own == *tenant)
}

/// Checks that the caller may submit or grow a job.
///
/// # Errors
/// If the tenant or the name is not one of the caller's, or the precedence is too high.
pub(crate) fn may_submit(caller: &Caller, job: &Job) -> Result<(), ApiError> {
    let Some(owner) = caller.owner() else { return Ok(()) };
    let no = |why: String| Err(denied(format!("{caller} may not do this: {why}")));
    let name = &*job.name;
    if !caller.may_see_tenant(&job.tenant) {
        return no(format!("job {name:?} belongs to the tenant {:?}", &*job.tenant));
    }
    if !caller.is_named_well(name) {
        return no(format!(
            "the name of job {name:?} must begin with {:?}",
            format!("{}.", owner.name)
        ));
    }
    if job.precedence.0 > owner.precedence_max {
        no(format!("job {name:?} has a precedence above {}", owner.precedence_max))
    } else {
        Ok(())
    }
}

/// Checks that no rule of a job selects tasks of other tenants. By such a rule, a tenant could occupy machines without
/// claiming resources. Each rule also takes time at each placement of the tasks that it selects.
///
/// # Errors
/// If the caller is a submitter or an application, and a rule of the job selects tasks of a tenant that is not one of
/// the caller's.
pub(crate) fn may_select(caller: &Caller, job: &Job) -> Result<(), ApiError> {
    if caller.owner().is_none() {
        return Ok(());
    }
    let rules = job.groups.iter().flat_map(|group| &group.rules.tasks);
    let is_foreign = |tasks: &TaskSelector| match tasks {
        TaskSelector::Labels { tenants: Tenants::Any, .. } => true,
        TaskSelector::Labels { tenants: Tenants::Named(names), .. } => {
            names.iter().any(|name| !caller.may_see_tenant(name))
        }
        TaskSelector::Labels { tenants: Tenants::Own, .. }
        | TaskSelector::SameGroup
        | TaskSelector::SameJob => false,
    };
    if rules.flat_map(TaskRule::terms).any(|(tasks, _)| is_foreign(tasks)) {
        return Err(denied(format!(
            "{caller} may not do this: job {:?} has a rule about tasks of other tenants: select \
             only own tenants",
            &*job.name
        )));
    }
    Ok(())
}

/// Checks that the caller may watch the jobs with a name prefix. Jobs that the caller may not see are omitted.
///
/// # Errors
/// If the caller is an application, and the prefix is outside of its own names.
pub(crate) fn may_watch(caller: &Caller, prefix: &str) -> Result<(), ApiError> {
    let Role::Application(owner) = &caller.role else { return Ok(()) };
    let own = format!("{}.", owner.name);
    if prefix.starts_with(&own) {
        Ok(())
    } else {
        Err(denied(format!(
            "{caller} may not watch jobs with the prefix {prefix:?}: the names \
                 of its own jobs begin with {own:?}"
        )))
    }
}

/// Checks that the caller may read sums over all jobs.
///
/// # Errors
/// If the caller may see only some jobs.
pub(crate) fn may_see_all(caller: &Caller) -> Result<(), ApiError> {
    if caller.is_bounded() {
        let message = format!(
            "{caller} may not make this call: it returns data of all tenants' jobs, so it \
                 needs a reader of all tenants"
        );
        Err(denied(message))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity;
    use omega_core::{Amounts, Precedence, TaskGroup};
    use proptest::prelude::*;

    fn caller(uri: &str) -> Caller {
        Caller { name: uri.into(), role: identity::read(uri, "c").unwrap() }
    }

    #[test]
    fn a_submitter_selects_only_tasks_of_its_own_tenants() {
        use omega_core::{LabelSelector, Near, TopologyLevel};
        let caller = caller("omega://c/submitter/x?tenant=a&tenant=b");
        let select = |tenants| TaskSelector::Labels { tenants, labels: LabelSelector::default() };
        let named =
            |names: &[&str]| Tenants::Named(names.iter().map(|name| (*name).into()).collect());
        let may = |rule: &TaskRule| {
            let mut group = TaskGroup::new(1, Amounts::new([1]));
            group.rules.tasks = vec![rule.clone()];
            may_select(&caller, &Job::batch("j", group)).is_ok()
        };
        let tenants = [Tenants::Own, named(&["a", "b"]), named(&["a", "c"]), Tenants::Any];
        let level = || TopologyLevel::Machine;
        let rules: [fn(TaskSelector, TopologyLevel) -> TaskRule; 6] = [
            |from, level| TaskRule::AntiAffinity { from, level },
            |of, level| TaskRule::MaxColocated { of, level, count: 1 },
            |of, level| TaskRule::MaxPerDomain { of, level, count: 1 },
            |tasks, level| TaskRule::RuntimeAffinity(Near { tasks, level }),
            |tasks, level| TaskRule::Affinity(vec![Near { tasks, level }]),
            |tasks, level| TaskRule::Prefer { near: Near { tasks, level }, weight: 1 },
        ];
        for rule in rules {
            let may = tenants.clone().map(|tenants| may(&rule(select(tenants), level())));
            assert_eq!(
                may,
                [true, true, false, false],
                "{:?}",
                rule(TaskSelector::SameJob, level())
            );
        }
    }

    proptest! {
        /// For each role, visible and permitted jobs follow from tenant, name and precedence.
        #[test]
        fn reach_is_what_the_certificate_says(
            role in 0..6_usize,
            tenant in 0..3_usize,
            name in 0..6_usize,
            precedence in -1..8_i32,
        ) {
            let (uri, tenants, is_application) = [
                ("omega://c/operator/x", None, false),
                ("omega://c/reader/x", None, false),
                ("omega://c/scheduler/x?tenant=a", None, false),
                ("omega://c/reader/x?tenant=a&tenant=b", Some(["a", "b"]), false),
                ("omega://c/submitter/x?tenant=a&tenant=b&precedence-max=5", Some(["a", "b"]), false),
                ("omega://c/application/x?tenant=a&tenant=b&precedence-max=5", Some(["a", "b"]), true),
            ][role];
            let caller = caller(uri);
            let (tenant, name) = (["a", "b", "c"][tenant], ["x.1", "x.", "x", "xy.1", "y.x.1", "x.y.z"][name]);
            let mut job = Job::batch(name, TaskGroup::new(1, Amounts::new([1])));
            job.tenant = tenant.into();
            job.precedence = Precedence(precedence);
            let of_tenant = tenants.is_none_or(|tenants| tenants.contains(&tenant));
            let named = !is_application || ["x.1", "x.y.z"].contains(&name);
            prop_assert_eq!(caller.may_see(&job), of_tenant && named);
            prop_assert_eq!(caller.is_bounded(), tenants.is_some());
            let may = caller.owner().is_none() || of_tenant && named && precedence <= 5;
            prop_assert_eq!(may_submit(&caller, &job).is_ok(), may);
        }
    }
}
