//! Files of the page, embedded in the binary.

use super::Shown;
use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, type and content of each file.
const FILES: [(&str, &str, &str); 19] = [
    ("/", HTML, include_str!("assets/index.html")),
    ("/style.css", CSS, include_str!("assets/style.css")),
    ("/icon.svg", SVG, include_str!("assets/icon.svg")),
    ("/main.js", SCRIPT, include_str!("assets/main.js")),
    ("/api.js", SCRIPT, include_str!("assets/api.js")),
    ("/dom.js", SCRIPT, include_str!("assets/dom.js")),
    ("/format.js", SCRIPT, include_str!("assets/format.js")),
    ("/overview.js", SCRIPT, include_str!("assets/overview.js")),
    ("/heat.js", SCRIPT, include_str!("assets/heat.js")),
    ("/machines.js", SCRIPT, include_str!("assets/machines.js")),
    ("/jobs.js", SCRIPT, include_str!("assets/jobs.js")),
    ("/tenants.js", SCRIPT, include_str!("assets/tenants.js")),
    ("/schedulers.js", SCRIPT, include_str!("assets/schedulers.js")),
    ("/patch.js", SCRIPT, include_str!("assets/patch.js")),
    ("/pages.js", SCRIPT, include_str!("assets/pages.js")),
    ("/tasks.js", SCRIPT, include_str!("assets/tasks.js")),
    ("/events.js", SCRIPT, include_str!("assets/events.js")),
    ("/explain.js", SCRIPT, include_str!("assets/explain.js")),
    ("/rates.js", SCRIPT, include_str!("assets/rates.js")),
];

/// A route for each file.
pub(super) fn routes() -> Router<Shown> {
    FILES.iter().fold(Router::new(), |routes, (path, kind, text)| {
        routes.route(path, get(async || ([(header::CONTENT_TYPE, *kind)], *text).into_response()))
    })
}
