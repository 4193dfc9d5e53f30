//! Rejections of calls for which a client lacks the right, in the words of a real server's RBAC.

use super::query::Query;
use super::{Response, Target, failure};

/// The right that a call needs.
pub(crate) struct Right {
    pub(crate) verb: &'static str,
    /// The plural of the resource, and its subresource.
    pub(crate) resource: String,
    pub(crate) group: String,
}

impl Right {
    pub(crate) fn of(method: &str, target: &Target, query: &Query) -> Right {
        let verb = match (method, target.name.as_str()) {
            ("GET", _) if query.has("watch") => "watch",
            ("GET", "") => "list",
            ("GET", _) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            (_, _) => "delete",
        };
        let (plural, group) = target.called.split_once('.').unwrap_or((&target.called, ""));
        let sub = if target.sub.is_empty() { String::new() } else { format!("/{}", target.sub) };
        Right { verb, resource: format!("{plural}{sub}"), group: group.to_owned() }
    }

    /// Returns the rejection of a call whose user lacks the right.
    pub(crate) fn rejection(&self, user: &str, target: &Target) -> Response {
        let Right { verb, resource, group } = self;
        let called = &target.called;
        let object = if target.name.is_empty() {
            called.clone()
        } else {
            format!("{called} \"{}\"", target.name)
        };
        let scope = if target.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", target.namespace)
        };
        let message = format!(
            "{object} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" \
             {scope}"
        );
        failure(403, Some("Forbidden"), message)
    }
}

/// Returns the rejection of a call whose credentials are wrong.
pub(crate) fn unauthorized() -> Response {
    failure(401, Some("Unauthorized"), "Unauthorized".into())
}

/// Returns the rejection of a call if its right, such as `patch pods/status`, is among the forbidden ones.
pub(super) fn refusal(
    forbidden: &[&'static str],
    method: &str,
    target: &Target,
    query: &Query,
) -> Option<Response> {
    let right = Right::of(method, target, query);
    let named = format!("{} {}", right.verb, right.resource);
    forbidden.iter().any(|one| *one == named).then(|| right.rejection("omega", target))
}
