//! A page of jobs. The lock of the cell is released after a number of jobs and tasks, even if few of the jobs are
//! selected, so that other calls are not delayed.

use crate::access::identity::Caller;
use crate::calls::responses;
use crate::host::Host;
use crate::observe::statistics;
use crate::service::{Room, page_start, page_token};
use omega_cellstate::Cell;
use omega_client::{ApiError, proto};
use omega_core::{Job, JobId};

/// Number of jobs that are read per lock of the cell. The numbers of their tasks are known.
pub(crate) const JOBS_AT_ONCE: usize = 1000;

/// A page that is being made.
pub(crate) struct JobsPage<'a> {
    host: &'a Host,
    caller: &'a Caller,
    request: &'a proto::ListJobsRequest,
    room: Room,
    answer: proto::ListJobsResponse,
}

impl<'a> JobsPage<'a> {
    fn new(
        host: &'a Host,
        caller: &'a Caller,
        request: &'a proto::ListJobsRequest,
    ) -> JobsPage<'a> {
        let room = Room::of_page(request.page_size);
        JobsPage { host, caller, request, room, answer: proto::ListJobsResponse::default() }
    }

    /// The page that a caller requests.
    ///
    /// # Errors
    /// If the request's token is not a page token.
    pub(crate) async fn of(
        host: &'a Host,
        caller: &'a Caller,
        request: &'a proto::ListJobsRequest,
    ) -> Result<proto::ListJobsResponse, ApiError> {
        let mut first = JobId(page_start(&request.page_token)?);
        let mut page = JobsPage::new(host, caller, request);
        while let Some(next) = host.read(|cell| page.add(cell, first)) {
            first = next;
            tokio::task::yield_now().await;
        }
        Ok(page.answer)
    }

    /// Adds jobs with this id or a higher id. Returns the first job that was not examined; `None` if the page is
    /// complete.
    fn add(&mut self, cell: &Cell, first: JobId) -> Option<JobId> {
        self.answer.version = cell.version().0;
        for (looked, (id, job)) in cell.jobs_from(first).enumerate() {
            if looked == JOBS_AT_ONCE {
                return Some(id);
            }
            if !self.has_names(job) || !self.has_state(cell, id) {
                continue;
            }
            if self.room.is_full() {
                self.answer.next_page_token = page_token(id.0);
                return None;
            }
            let age_ms = statistics::age_ms(self.host, cell, id);
            let reported = proto::JobStatus { age_ms, ..responses::job(cell, id) };
            self.answer.jobs.push(self.room.take(reported));
        }
        None
    }

    /// Whether the tenant and the scheduler of a job are requested, and the caller sees the job.
    fn has_names(&self, job: &Job) -> bool {
        (self.request.tenant.is_empty() || *job.tenant == *self.request.tenant)
            && (self.request.scheduler.is_empty() || *job.scheduler == *self.request.scheduler)
            && self.caller.may_see(job)
    }

    /// Whether jobs with tasks in the states of this job's tasks are requested.
    fn has_state(&self, cell: &Cell, id: JobId) -> bool {
        let counts = cell.task_counts(id).unwrap_or_default();
        let has_ended = counts.alive() == 0 && !cell.is_scaled_to_zero(id);
        (self.request.ended || !has_ended) && (!self.request.waiting || counts.pending > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::SharedCell;
    use omega_core::{Amounts, Command, Kinds, Outcome, TaskGroup};

    fn submit(cell: &SharedCell, tenant: &str, count: u64) -> u64 {
        let name = format!("job-{}", cell.read(|cell| cell.jobs().count()));
        let job = Job::batch(name, TaskGroup::new(count as u32, Amounts::new([1])));
        let job = Job { tenant: tenant.into(), ..job };
        match cell.apply(Command::SubmitJob(job)).unwrap() {
            Outcome::Job(id) => id.0,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_page_is_made_with_a_bounded_number_of_jobs_per_lock() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let (host, caller) = (Host::memory(cell.clone()), Caller::local());
        for _ in 0..2 * JOBS_AT_ONCE {
            submit(&cell, "other", 1);
        }
        let of = |tenant: &str, page_size: u32| {
            let tenant = tenant.to_owned();
            proto::ListJobsRequest { tenant, page_size, ..Default::default() }
        };
        let ids = |jobs: &[proto::JobStatus]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
        let wide: Vec<u64> = (0..3).map(|_| submit(&cell, "wide", 10_000)).collect();

        let request = of("wide", 2);
        let mut page = JobsPage::new(&host, &caller, &request);
        let next = cell.read(|cell| page.add(cell, JobId(0)));
        assert_eq!(next, Some(JobId(JOBS_AT_ONCE as u64)), "no more jobs per lock");
        assert!(page.answer.jobs.is_empty());

        let first = JobsPage::of(&host, &caller, &request).await.unwrap();
        assert_eq!(ids(&first.jobs), wide[..2]);
        let request = proto::ListJobsRequest { page_token: first.next_page_token, ..request };
        let last = JobsPage::of(&host, &caller, &request).await.unwrap();
        assert_eq!((ids(&last.jobs), &*last.next_page_token), (wide[2..].to_vec(), ""));
        let request = of("none", 0);
        let none = JobsPage::of(&host, &caller, &request).await.unwrap();
        assert!(none.jobs.is_empty() && none.next_page_token.is_empty());
    }
}
