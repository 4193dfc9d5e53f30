//! Lists in pages.

use super::partial::Object;
use super::{Failure, Keeper, ListSize, Sink};
use crate::client::{Call, CallError, Response, escape};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of times that a list in pages is started again because its continue token has expired. After that,
/// the list is read in one piece.
const RESTARTS_MAX: u32 = 3;

/// Number of objects in a page below which a timeout is not a matter of the page's size.
const SLOW_PAGE: usize = 100;

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

impl<S> Keeper<'_, S> {
    /// Lists all objects.
    pub(super) async fn list<T>(&mut self) -> Result<(), Failure>
    where
        T: Object,
        S: Sink<T>,
    {
        let (mut items, mut next, mut restarts) = (Vec::new(), String::new(), 0);
        let mut page = self.settings.page;
        self.list_size = ListSize::default();
        loop {
            let patience = self.settings.patience;
            let call = if restarts < RESTARTS_MAX {
                Call { patience, ..Call::page(self.page_path(page, &next)) }
            } else {
                Call { patience, ..Call::whole(self.page_path(0, &next)) }
            };
            let response = match self.client.call(&call).await {
                Err(CallError::Body(_)) if restarts < RESTARTS_MAX && page > 1 => {
                    page /= 2;
                    continue;
                }
                Err(CallError::Timeout(_)) if restarts < RESTARTS_MAX && page > SLOW_PAGE => {
                    page /= 2;
                    continue;
                }
                response => response?,
            };
            if response.status == 410 {
                // The server offers a token that continues at a newer version. With it, the watch would miss changes of
                // objects in earlier pages, so the list starts again.
                (items, next) = (Vec::new(), String::new());
                restarts += 1;
                self.list_size = ListSize::default();
                continue;
            }
            let page = parse(&response)?;
            let found = page.items.unwrap_or_default();
            // An empty page counts as one object, so that endless empty pages reach the limit.
            self.count(found.len().max(1), response.body.len())?;
            items.extend(found.into_iter().filter_map(|item| self.read(item.get())));
            next = page.metadata.next;
            if next.is_empty() {
                return self.pass_list(items, page.metadata.resource_version).await;
            }
        }
    }

    fn page_path(&self, limit: usize, next: &str) -> String {
        let mut path = format!("{}?limit={limit}", self.resource.path);
        if !self.resource.fields.is_empty() {
            path += &format!("&fieldSelector={}", escape(self.resource.fields));
        }
        if !next.is_empty() {
            path += &format!("&continue={}", escape(next));
        }
        path
    }
}

fn parse(response: &Response) -> Result<Page<'_>, Failure> {
    if response.status != 200 {
        let message = response.message();
        return Err(Failure::Status(response.status, response.retry_after, message));
    }
    serde_json::from_slice(&response.body).map_err(|why| Failure::Json(why.to_string()))
}
