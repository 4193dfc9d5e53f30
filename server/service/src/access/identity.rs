//! Identity of callers, from their certificates.
//!
//! A certificate names its owner in exactly one URI among its subject alternative names:
//!
//! ```text
//!   omega://CELL/operator/NAME
//!   omega://CELL/reader/NAME?tenant=A&tenant=B
//!   omega://CELL/submitter/NAME?tenant=A&tenant=B&precedence-max=100
//!   omega://CELL/application/NAME?tenant=A&precedence-max=100
//!   omega://CELL/scheduler/NAME?tenant=A&tenant=B&precedence-max=100
//!   omega://CELL/agent/MACHINE
//!   omega://CELL/replica/ID
//! ```
//!
//! A role's permissions are part of the certificate, which the authority signs. So replicas need no list of callers,
//! which could differ between them. A certificate with two such URIs is rejected, because it is unclear which one its
//! signer intended.

use omega_store::log::ReplicaId;
use std::fmt;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Maximum length of a name in a certificate, as in the cell state.
const NAME_BYTES_MAX: usize = 512;

/// Maximum number of tenants in one certificate; more need a second certificate.
const TENANTS_MAX: usize = 64;

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// URI of the certificate, or the caller's address, for the audit log.
    pub name: Arc<str>,
    /// Role of the caller.
    pub role: Role,
}

/// Role of a caller, with its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A caller that may read everything or, if tenants are listed, only objects of these tenants.
    Reader(Vec<Box<str>>),
    /// A caller that may submit, read and kill jobs of its tenants.
    Submitter(Owner),
    /// A submitter restricted to jobs whose names begin with the submitter's name.
    Application(Owner),
    /// A caller that may place the jobs of one scheduler.
    Scheduler(Grant),
    /// A caller that may manage the machine of this name.
    Agent(Box<str>),
    /// A caller that may make every call.
    Operator,
    /// A replica of the cell, on the listener for peers; with its id, if it has presented a certificate.
    Replica(Option<ReplicaId>),
    /// An unidentified caller, with the reason for which it is not identified.
    Nobody(IdentityError),
}

impl Role {
    /// The role's name in certificates and messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Role::Reader(_) => "reader",
            Role::Submitter(_) => "submitter",
            Role::Application(_) => "application",
            Role::Scheduler(_) => "scheduler",
            Role::Agent(_) => "agent",
            Role::Operator => "operator",
            Role::Replica(_) => "replica",
            Role::Nobody(_) => "nobody",
        }
    }
}

/// Permissions of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Name of the scheduler, as given in its jobs. The caller registers under this name, or under this name with a
    /// worker's number appended.
    pub scheduler: Box<str>,
    /// Tenants whose jobs the scheduler may place; all tenants if empty.
    pub tenants: Vec<Box<str>>,
    /// The highest precedence of jobs that the scheduler may place.
    pub precedence_max: i32,
}

/// Permissions of a caller that owns jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the caller.
    pub name: Box<str>,
    /// Tenants whose jobs the caller owns; at least one.
    pub tenants: Vec<Box<str>>,
    /// The highest precedence of the caller's jobs.
    pub precedence_max: i32,
}

/// Reason for which a caller is not identified, usually a defect of its certificate. The caller gets the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The caller has no certificate. Present one.
    #[error(
        "no certificate was presented: this cell requires one from its client CA (--client-ca of \
         `omega serve`), see docs/security.md"
    )]
    None,
    /// The certificate cannot be read. Have another one issued.
    #[error("the certificate cannot be read: present another one, see docs/security.md")]
    Unreadable,
    /// The certificate does not have exactly one name of an omega caller. Have a certificate with one such name issued.
    #[error("the certificate has {0} URI names: must have exactly one, omega://CELL/ROLE/NAME")]
    Names(usize),
    /// The certificate is for another cell. Have one issued for this cell.
    #[error(
        "the certificate is for the cell {given:?}, but this is the cell {cell:?}: present one \
         for this cell"
    )]
    OtherCell {
        /// The cell named in the certificate.
        given: String,
        /// The cell that was called.
        cell: String,
    },
    /// The certificate's name is malformed. Have one issued with a valid name.
    #[error("the certificate's name {0:?} must be omega://CELL/ROLE/NAME: see docs/security.md")]
    Malformed(String),
}

impl Caller {
    /// Caller on a listener without certificates. Only this machine can reach such a listener, unless an operator
    /// decided otherwise.
    #[must_use]
    pub fn local() -> Caller {
        Caller { name: "local".into(), role: Role::Operator }
    }

    /// Caller on a listener for peers without certificates.
    #[must_use]
    pub fn local_peer() -> Caller {
        Caller { name: "local".into(), role: Role::Replica(None) }
    }

    /// The owner of a certificate. If the certificate is not valid for this cell, the caller is unidentified.
    #[must_use]
    pub fn of_certificate(der: &[u8], cell: &str) -> Caller {
        let names = match uri_names(der) {
            Some(names) => names,
            None => return Caller::nobody("unreadable".into(), IdentityError::Unreadable),
        };
        match names.as_slice() {
            [name] => match read(name, cell) {
                Ok(role) => Caller { name: name.as_str().into(), role },
                Err(why) => Caller::nobody(name.as_str().into(), why),
            },
            names => Caller::nobody(names.join(" ").into(), IdentityError::Names(names.len())),
        }
    }

    /// Caller without a certificate on a listener that requires one.
    #[must_use]
    pub fn without_certificate() -> Caller {
        Caller::nobody("nobody".into(), IdentityError::None)
    }

    fn nobody(name: Arc<str>, why: IdentityError) -> Caller {
        Caller { name, role: Role::Nobody(why) }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn uri_names(der: &[u8]) -> Option<Vec<String>> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let Some(names) = certificate.subject_alternative_name().ok()? else { return Some(Vec::new()) };
    let uri = |name: &GeneralName<'_>| match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    };
    Some(names.value.general_names.iter().filter_map(uri).collect())
}

/// Whether a name may be part of a caller's URI. Escapes are not supported, so that each name has only one spelling.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(plain)
}

/// Parses the role in a URI, for this cell.
///
/// # Errors
/// If the URI is invalid, or for another cell.
pub fn read(uri: &str, cell: &str) -> Result<Role, IdentityError> {
    let malformed = || IdentityError::Malformed(uri.to_owned());
    let rest = uri.strip_prefix("omega://").ok_or_else(malformed)?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
    let parts: Vec<&str> = rest.split('/').collect();
    let [given, role, name] = parts[..] else { return Err(malformed()) };
    if ![given, role, name].iter().all(|part| is_plain(part)) {
        return Err(malformed());
    }
    if given != cell {
        return Err(IdentityError::OtherCell { given: given.to_owned(), cell: cell.to_owned() });
    }
    let bounds = bounds(query).ok_or_else(malformed)?;
    let may_have = match role {
        "scheduler" | "submitter" | "application" => true,
        "reader" => bounds.precedence_max.is_none(),
        _ => query.is_none(),
    };
    if !may_have {
        return Err(malformed());
    }
    Ok(match role {
        "reader" => Role::Reader(bounds.tenants),
        "operator" => Role::Operator,
        "agent" => Role::Agent(name.into()),
        "scheduler" => Role::Scheduler(grant(name, bounds).ok_or_else(malformed)?),
        "submitter" => Role::Submitter(owner(name, bounds).ok_or_else(malformed)?),
        "application" => Role::Application(owner(name, bounds).ok_or_else(malformed)?),
        "replica" => {
            let id = name.parse().ok().filter(|id: &u64| *id > 0 && id.to_string() == name);
            Role::Replica(Some(ReplicaId(id.ok_or_else(malformed)?)))
        }
        _ => return Err(malformed()),
    })
}

/// Permissions that follow the name in a URI.
#[derive(Default)]
struct Bounds {
    tenants: Vec<Box<str>>,
    precedence_max: Option<i32>,
}

fn bounds(query: Option<&str>) -> Option<Bounds> {
    let mut bounds = Bounds::default();
    for part in query.into_iter().flat_map(|query| query.split('&')) {
        match part.split_once('=')? {
            ("tenant", tenant) if is_plain(tenant) => bounds.tenants.push(tenant.into()),
            ("precedence-max", max) if bounds.precedence_max.is_none() => {
                bounds.precedence_max = Some(max.parse().ok()?);
            }
            _ => return None,
        }
    }
    (bounds.tenants.len() <= TENANTS_MAX).then_some(bounds)
}

fn grant(name: &str, bounds: Bounds) -> Option<Grant> {
    // Without this check, `a-1` could be a scheduler of its own as well as a worker of `a`.
    if is_worker_of(name, name.rsplit_once('-').map_or("", |(before, _)| before)) {
        return None;
    }
    let precedence_max = bounds.precedence_max.unwrap_or(i32::MAX);
    Some(Grant { scheduler: name.into(), tenants: bounds.tenants, precedence_max })
}

/// The permissions of a submitter or an application. At least one tenant is required. Without a precedence limit, the
/// limit is 0.
fn owner(name: &str, bounds: Bounds) -> Option<Owner> {
    let precedence_max = bounds.precedence_max.unwrap_or(0);
    let owner = Owner { name: name.into(), tenants: bounds.tenants, precedence_max };
    (!owner.tenants.is_empty()).then_some(owner)
}

/// Maximum number of workers of a scheduler, because the cell keeps a record of each name.
const WORKERS_MAX: u16 = 64;

/// Whether a name belongs to a worker of this scheduler: it is the scheduler's name, a dash and a number.
pub(crate) fn is_worker_of(name: &str, scheduler: &str) -> bool {
    let number = name.strip_prefix(scheduler).and_then(|rest| rest.strip_prefix('-'));
    let parsed = number.and_then(|number| number.parse::<u16>().ok());
    // A number has one form only, without zeros or a sign before it.
    parsed.is_some_and(|parsed| parsed < WORKERS_MAX && number == Some(&*parsed.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_has_a_bounded_number_of_worker_names() {
        let is_worker = |name| is_worker_of(name, "a");
        assert!(["a-0", "a-1", "a-63"].into_iter().all(is_worker));
        assert!(!["a", "a-", "a-64", "a-100", "a-01", "a-+1", "b-1"].into_iter().any(is_worker));
    }

    fn check(uri: &str, expected: &str) {
        let output = match read(uri, "c") {
            Ok(Role::Scheduler(grant)) => format!(
                "scheduler {} {} {}",
                grant.scheduler,
                grant.tenants.join(","),
                grant.precedence_max
            ),
            Ok(Role::Reader(tenants)) => format!("reader {}", tenants.join(",")),
            Ok(Role::Submitter(owner) | Role::Application(owner)) => {
                format!("{} {} {}", owner.name, owner.tenants.join(","), owner.precedence_max)
            }
            Ok(role) => role.name().to_owned(),
            Err(IdentityError::OtherCell { .. }) => "other cell".to_owned(),
            Err(_) => "malformed".to_owned(),
        };
        assert_eq!(output, expected, "{uri}");
    }

    #[test]
    fn a_name_is_read_exactly_or_not_at_all() {
        check("omega://c/operator/ann", "operator");
        check("omega://c/reader/x", "reader ");
        check("omega://c/agent/m-1.rack_2", "agent");
        check("omega://c/replica/3", "replica");
        check("omega://d/operator/ann", "other cell");
        for wrong in [
            "",
            "https://c/operator/ann",
            "omega://c/operator",
            "omega://c/operator/",
            "omega://c/operator/ann/more",
            "omega://c/operator/a%6en",
            "omega://c/operator/ann?tenant=a",
            "omega://c/Operator/ann",
            "omega://c/replica/0",
            "omega://c/replica/03",
            "omega://c/replica/-1",
            "omega:///operator/ann",
            "omega://c/admin/ann",
            "omega://c/agent/a\0b",
        ] {
            check(wrong, "malformed");
        }
    }

    #[test]
    fn a_role_carries_its_bounds() {
        check("omega://c/scheduler/web", "scheduler web  2147483647");
        check(
            "omega://c/scheduler/web?tenant=a&tenant=b&precedence-max=-5",
            "scheduler web a,b -5",
        );
        check("omega://c/reader/x?tenant=a&tenant=b", "reader a,b");
        check("omega://c/submitter/ann?tenant=a", "ann a 0");
        check("omega://c/application/render?tenant=a&precedence-max=9", "render a 9");
        check("omega://c/submitter/ann", "malformed");
        check("omega://c/application/render?precedence-max=9", "malformed");
        check("omega://c/reader/x?precedence-max=1", "malformed");
        check("omega://c/agent/m?tenant=a", "malformed");
        check("omega://c/scheduler/web?precedence-max=1&precedence-max=2", "malformed");
        check("omega://c/scheduler/web?root=1", "malformed");
        check("omega://c/scheduler/web?", "malformed");
        check("omega://c/scheduler/web-1", "malformed");
        check("omega://c/scheduler/web-one", "scheduler web-one  2147483647");
    }
}
