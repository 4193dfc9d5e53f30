//! Lists in pages.

use super::partial::{Object, read};
use super::{Event, Failure, Keeper, Sink};
use crate::client::{Call, Response, escape};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of times that a list in pages starts again because its token has expired. After that, the list is
/// read in one piece.
const RESTARTS_MAX: u32 = 3;

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
        loop {
            let limit = if restarts < RESTARTS_MAX { self.settings.page } else { 0 };
            let call = Call::get(self.page_path(limit, &next));
            let response = self.client.call(&call).await?;
            if response.status == 410 {
                // This page's token would continue at a newer version, and the watch would then miss changes to earlier
                // pages.
                (items, next) = (Vec::new(), String::new());
                restarts += 1;
                continue;
            }
            let page = parse(&response)?;
            items.extend(page.items.into_iter().flatten().filter_map(|item| read(item.get())));
            next = page.metadata.next;
            if next.is_empty() {
                self.version.clone_from(&page.metadata.resource_version);
                let event = Event::Listed(items, page.metadata.resource_version);
                return if self.sink.take(event).await { Ok(()) } else { Err(Failure::Closed) };
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
