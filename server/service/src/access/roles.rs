//! Permissions: one table for every call of every service.
//!
//! A call without a rule here is denied to everyone, and a test fails because of it. Rules that depend on the content
//! of a call are in `grants.rs`, and are checked by the services that read the call.

use crate::access::identity::{Caller, Role};
use crate::overload::call_slots::Need;
use omega_client::{ApiError, ErrorCode};
use std::collections::BTreeSet;

/// Roles that may make a call: a set of bits, so that the table is a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles(u8);

const READER: Roles = Roles(1);
const SCHEDULER: Roles = Roles(1 << 1);
const AGENT: Roles = Roles(1 << 2);
const OPERATOR: Roles = Roles(1 << 3);
const REPLICA: Roles = Roles(1 << 4);
const SUBMITTER: Roles = Roles(1 << 5);
const APPLICATION: Roles = Roles(1 << 6);

/// Roles that own jobs: see `visibility.rs`.
const OWNERS: Roles = SUBMITTER.and(APPLICATION);

/// Every role on the listener for clients.
const CLIENTS: Roles = LOOKERS.and(AGENT);

/// Roles that may read the cell, each within its rights.
const LOOKERS: Roles = READER.and(SCHEDULER).and(OPERATOR).and(OWNERS);

impl Roles {
    const fn and(self, other: Roles) -> Roles {
        Roles(self.0 | other.0)
    }

    /// Whether a role is in the set.
    #[must_use]
    pub fn contain(self, role: &Role) -> bool {
        let bit = match role {
            Role::Reader(_) => READER,
            Role::Scheduler(_) => SCHEDULER,
            Role::Agent(_) => AGENT,
            Role::Operator => OPERATOR,
            Role::Replica(_) => REPLICA,
            Role::Submitter(_) => SUBMITTER,
            Role::Application(_) => APPLICATION,
            Role::Nobody(_) => return false,
        };
        self.0 & bit.0 != 0
    }

    /// Names of the roles, as text.
    #[must_use]
    pub fn names(self) -> String {
        let all = [
            (READER, "reader"),
            (SCHEDULER, "scheduler"),
            (AGENT, "agent"),
            (SUBMITTER, "submitter"),
            (APPLICATION, "application"),
            (OPERATOR, "operator"),
            (REPLICA, "replica"),
        ];
        let named = all.iter().filter(|(role, _)| self.0 & role.0 != 0);
        named.map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

/// Kind of a call, for limits and the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A single read.
    Read,
    /// A single change.
    Change,
    /// A repeated report of a state, which is not audited.
    Report,
    /// A stream that only reads, until the caller ends it.
    Watch,
    /// A stream in which each message is a change.
    Stream,
    /// A stream that exports the whole state, which is audited.
    Export,
}

impl CallKind {
    /// Whether the call runs until the caller ends it.
    #[must_use]
    pub fn is_stream(self) -> bool {
        matches!(self, CallKind::Watch | CallKind::Stream | CallKind::Export)
    }

    /// Whether the audit log has a line for each call. For a stream of changes it has a line for each message.
    #[must_use]
    pub fn is_audited(self) -> bool {
        matches!(self, CallKind::Change | CallKind::Export)
    }
}

/// The rule of a call.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Path of the service and the call.
    pub path: &'static str,
    /// Roles that may make the call.
    pub roles: Roles,
    /// Kind of the call.
    pub nature: CallKind,
}

impl Rule {
    /// Urgency of a call. Calls of agents, lease renewals and health checks are vital: without them machines are lost,
    /// schedulers are fenced, and servers may be restarted.
    pub(crate) fn need(&self, caller: &Caller) -> Need {
        let is_vital = matches!(caller.role, Role::Agent(_))
            || self.nature == Report
            || self.path.starts_with("grpc.health.");
        if is_vital { Need::Vital } else { Need::Usual }
    }
}

impl Rule {
    /// Whether the caller sends any number of messages, with pauses between them.
    pub(crate) fn sends_many(&self) -> bool {
        self.nature == Stream || self.path.starts_with("grpc.reflection.")
    }
}

const fn rule(path: &'static str, roles: Roles, nature: CallKind) -> Rule {
    Rule { path, roles, nature }
}

use CallKind::{Change, Export, Read, Report, Stream, Watch};

/// Every call, by service.
pub const RULES: &[Rule] = &[
    // A scheduler may use only its own name and jobs: see `grants.rs`.
    rule("omega.v1.SchedulingService/Register", SCHEDULER.and(OPERATOR), Change),
    rule("omega.v1.SchedulingService/Renew", SCHEDULER.and(OPERATOR), Report),
    rule("omega.v1.SchedulingService/EndLeases", SCHEDULER.and(OPERATOR), Change),
    rule("omega.v1.SchedulingService/ListSchedulers", LOOKERS, Read),
    rule("omega.v1.SchedulingService/Sync", LOOKERS, Watch),
    rule("omega.v1.SchedulingService/Commit", SCHEDULER.and(OPERATOR), Change),
    rule("omega.v1.SchedulingService/CommitStream", SCHEDULER.and(OPERATOR), Stream),
    // The result covers all jobs, so callers that see only some jobs are rejected: see `visibility.rs`.
    rule("omega.v1.SchedulingService/GetTransaction", LOOKERS, Read),
    rule("omega.v1.SchedulingService/ListTransactions", LOOKERS, Read),
    // Restricted to the caller's own jobs: see `visibility.rs`.
    rule("omega.v1.JobService/SubmitJob", OWNERS.and(OPERATOR), Change),
    rule("omega.v1.JobService/ResizeGroup", OWNERS.and(OPERATOR), Change),
    rule("omega.v1.JobService/KillJob", OWNERS.and(OPERATOR), Change),
    rule("omega.v1.JobService/DeleteJob", OWNERS.and(OPERATOR), Change),
    rule("omega.v1.JobService/UpdateJob", OWNERS.and(OPERATOR), Change),
    // Restricted to callers that may see the job's programs: see `visibility.rs`.
    rule("omega.v1.JobService/ListJobVersions", LOOKERS, Read),
    rule("omega.v1.JobService/GetJob", LOOKERS, Read),
    rule("omega.v1.JobService/ListJobs", LOOKERS, Read),
    rule("omega.v1.JobService/WatchJob", LOOKERS, Watch),
    rule("omega.v1.JobService/WatchJobs", LOOKERS, Watch),
    rule("omega.v1.JobService/ListEvents", LOOKERS, Read),
    rule("omega.v1.JobService/ExplainJob", LOOKERS, Read),
    // An agent may use only its own machine: see `grants.rs`.
    rule("omega.v1.MachineService/RegisterMachine", AGENT.and(OPERATOR), Change),
    rule("omega.v1.MachineService/DrainMachine", OPERATOR, Change),
    rule("omega.v1.MachineService/RemoveMachine", OPERATOR, Change),
    rule("omega.v1.MachineService/ReportLoad", AGENT.and(OPERATOR), Report),
    // An agent may read only its own machine: see `grants.rs`.
    rule("omega.v1.MachineService/GetMachine", CLIENTS, Read),
    rule("omega.v1.MachineService/ListMachines", LOOKERS, Read),
    rule("omega.v1.MachineService/CreateReservation", OPERATOR, Change),
    rule("omega.v1.MachineService/DeleteReservation", OPERATOR, Change),
    rule("omega.v1.MachineService/ListReservations", LOOKERS, Read),
    rule("omega.v1.MachineService/SetPeaks", OPERATOR, Change),
    rule("omega.v1.MachineService/RemovePeaks", OPERATOR, Change),
    rule("omega.v1.MachineService/ListPeaks", LOOKERS, Read),
    rule("omega.v1.TaskService/ReportTasks", AGENT.and(OPERATOR), Change),
    rule("omega.v1.TaskService/ListTasks", LOOKERS, Read),
    // Restricted to jobs of the caller's tenants: see `visibility.rs`.
    rule("omega.v1.TaskService/ReadTaskLog", LOOKERS, Read),
    rule("omega.v1.AgentService/Attach", AGENT.and(OPERATOR), Stream),
    rule("omega.v1.TenantService/SetQuota", OPERATOR, Change),
    rule("omega.v1.TenantService/SetTenant", OPERATOR, Change),
    rule("omega.v1.TenantService/SetAdmission", OPERATOR, Change),
    rule("omega.v1.TenantService/ListTenants", LOOKERS, Read),
    rule("omega.v1.CellService/DescribeCell", CLIENTS, Read),
    rule("omega.v1.CellService/GetStatistics", LOOKERS, Read),
    rule("omega.v1.CellService/SetPolicy", OPERATOR, Change),
    rule("omega.v1.CellService/SetClusterCapacity", OPERATOR, Change),
    rule("omega.v1.CellService/ListClusterResources", LOOKERS, Read),
    rule("omega.v1.CellService/ChangeMembers", OPERATOR, Change),
    rule("omega.v1.CellService/TransferLeader", OPERATOR, Change),
    rule("omega.v1.CellService/Backup", OPERATOR, Export),
    rule("omega.v1.PeerService/Deliver", REPLICA, Stream),
    rule("grpc.health.v1.Health/Check", CLIENTS, Read),
    rule("grpc.health.v1.Health/Watch", CLIENTS, Watch),
    rule("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", CLIENTS, Watch),
    rule("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", CLIENTS, Watch),
];

/// The rule of a call, if there is one. A path has the form of HTTP: `/SERVICE/CALL`.
#[must_use]
pub fn find(path: &str) -> Option<&'static Rule> {
    let path = path.strip_prefix('/')?;
    RULES.iter().find(|rule| rule.path == path)
}

/// Returns the rule of a call that the caller may make.
///
/// # Errors
/// If the caller is not identified, or its role does not allow the call.
pub fn check(caller: &Caller, path: &str) -> Result<&'static Rule, ApiError> {
    if let Role::Nobody(why) = &caller.role {
        return Err(ApiError::new(ErrorCode::Unauthenticated, why.to_string()));
    }
    let Some(rule) = find(path) else {
        return Err(denied(format!(
            "this server has no call {path:?}: a newer version may have it"
        )));
    };
    if rule.roles.contain(&caller.role) {
        Ok(rule)
    } else if matches!(caller.role, Role::Replica(None)) {
        Err(denied(format!(
            "this address is only for messages between replicas (--peers, --peer-listen): send {} to the \
             address that `omega serve` has in --listen",
            rule.path
        )))
    } else {
        Err(denied(format!(
            "{caller} may not call {}: the call needs the role {}",
            rule.path,
            rule.roles.names()
        )))
    }
}

/// Services for all callers except replicas, without reflection.
pub(crate) fn services_of_clients() -> BTreeSet<&'static str> {
    let open = RULES.iter().filter(|rule| rule.roles.0 & CLIENTS.0 != 0);
    let services = open.filter_map(|rule| rule.path.split('/').next());
    services.filter(|service| !service.starts_with("grpc.reflection.")).collect()
}

pub(crate) fn denied(why: String) -> ApiError {
    ApiError::new(ErrorCode::Denied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_client::proto::DESCRIPTORS;
    use prost::Message;
    use prost_types::FileDescriptorSet;
    use std::collections::BTreeMap;

    /// Every call of the API, with whether it is a stream, and whether the caller sends a stream.
    fn defined() -> BTreeMap<String, (bool, bool)> {
        let mut calls = BTreeMap::new();
        for set in [DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET] {
            let set = FileDescriptorSet::decode(set).unwrap();
            for file in &set.file {
                for service in &file.service {
                    for call in &service.method {
                        let path = format!("{}.{}/{}", file.package(), service.name(), call.name());
                        let sends = call.client_streaming();
                        calls.insert(path, (sends || call.server_streaming(), sends));
                    }
                }
            }
        }
        calls
    }

    #[test]
    fn every_call_has_one_rule() {
        let defined = defined();
        assert!(defined.len() > 20, "the definitions were found");
        for (path, (is_stream, sends_many)) in &defined {
            let rules: Vec<&Rule> = RULES.iter().filter(|rule| rule.path == path).collect();
            assert_eq!(rules.len(), 1, "{path}: add a line to RULES that says who may call it");
            let says_stream = rules[0].nature.is_stream();
            assert_eq!(says_stream, *is_stream, "{path}: its nature");
            assert_eq!(rules[0].sends_many(), *sends_many, "{path}: what its caller sends");
        }
        let ours = RULES.iter().filter(|rule| !rule.path.starts_with("grpc.reflection."));
        for rule in ours {
            assert!(defined.contains_key(rule.path), "{}: there is no such call", rule.path);
        }
    }

    #[test]
    fn what_has_no_rule_is_denied_to_everyone() {
        for path in ["/omega.v1.JobService/DropAll", "omega.v1.JobService/GetJob", "/", "", "//"] {
            let error = check(&Caller::local(), path).unwrap_err();
            assert_eq!(error.code, ErrorCode::Denied, "{path}");
        }
    }
}
