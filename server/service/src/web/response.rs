//! Replies to requests: JSON, or an error with a code for programs and a sentence for people.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use omega_client::{ApiError, ErrorCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Default number of items on a page.
const PAGE: usize = 100;

/// Maximum number of items on a page.
const PAGE_MAX: usize = 1000;

/// A value, or an error.
pub(super) type JsonResult = Result<Response, Failed>;

/// Error of a request.
#[derive(Debug)]
pub(super) struct Failed(pub(super) ApiError);

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Failed {
        Failed(error)
    }
}

#[derive(Serialize)]
struct ErrorShape<'a> {
    code: &'a str,
    message: &'a str,
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Response {
    let text = serde_json::to_vec(value);
    let text = text.expect("the keys are text, and memory takes all that is written");
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let error = &self.0;
        let status = match error.code {
            ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorCode::Denied => StatusCode::FORBIDDEN,
            ErrorCode::UnknownJob | ErrorCode::UnknownMachine => StatusCode::NOT_FOUND,
            ErrorCode::Limit => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Malformed | ErrorCode::BadPageToken => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let shape = ErrorShape { code: error.code.name(), message: &error.message };
        (status, json(&shape)).into_response()
    }
}

/// Parameters of a request. Invalid parameters are reported like any other error.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Failed> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Params(params)),
            Err(why) => {
                let text = why.body_text();
                let why = text.strip_prefix("Failed to deserialize query string: ");
                let message = format!("the parameters in the address: {}", why.unwrap_or(&text));
                Err(Failed(ApiError::new(ErrorCode::Malformed, message)))
            }
        }
    }
}

/// Parameters of a request for one object with a page of its tasks.
#[derive(Deserialize)]
pub(super) struct OneParams {
    pub(super) name: String,
    pub(super) limit: Option<usize>,
    pub(super) page: Option<String>,
}

/// Number of items on a page.
///
/// # Errors
/// The limit is 0.
pub(super) fn page_size(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit {
        Some(0) => Err(ApiError::new(ErrorCode::Malformed, "limit: must be at least 1")),
        limit => Ok(limit.unwrap_or(PAGE).min(PAGE_MAX)),
    }
}

/// A page of a list.
#[derive(Serialize)]
pub(super) struct ListShape<T> {
    pub(super) version: u64,
    pub(super) items: Vec<T>,
    /// Token of the next page; `null` on the last page.
    pub(super) next_page: Option<String>,
}

/// Checks the state by which a list is filtered; no state, and an empty one, select everything.
///
/// # Errors
/// If no object ever has this state.
pub(super) fn check_state(params: Option<&str>, known: &[&str]) -> Result<(), ApiError> {
    match params {
        Some(state) if !state.is_empty() && !known.contains(&state) => {
            let message = format!("no such state: {state} (the states are {})", known.join(", "));
            Err(ApiError::new(ErrorCode::Malformed, message))
        }
        _ => Ok(()),
    }
}

pub(super) async fn nothing_here() -> Response {
    let shape = ErrorShape {
        code: "NOT_FOUND",
        message: "no page has this address: see \
         docs/web.md",
    };
    (StatusCode::NOT_FOUND, json(&shape)).into_response()
}
