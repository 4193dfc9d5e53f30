//! Rejections of calls for which a client lacks the right, in the words of a real server's RBAC.

use super::query::Query;
use super::{Response, Target, failure};

/// Returns the rejection of a call if its right, such as `patch pods/status`, is among the forbidden ones.
pub(super) fn refusal(
    forbidden: &[&'static str],
    method: &str,
    target: &Target,
    query: &Query,
) -> Option<Response> {
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
    let resource = format!("{plural}{sub}");
    if !forbidden.iter().any(|right| *right == format!("{verb} {resource}")) {
        return None;
    }
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
        "{object} is forbidden: User \"omega\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
    );
    Some(failure(403, Some("Forbidden"), message))
}
