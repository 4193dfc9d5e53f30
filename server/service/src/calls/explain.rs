//! Explanations of pending jobs, outside of the commit path.
//!
//! An explanation needs a scheduler, and this crate contains none. So the program that starts a server passes an
//! [`Explainer`]; without one, the call is rejected. An explanation reads the cell through deltas, like a scheduler, on
//! its own thread. It costs a full delta and processor time, so only a few run at a time, and each ends when its caller
//! is gone.

use crate::access::identity::{Caller, Role};
use crate::calls::refs;
use crate::host::Host;
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{
    Commit, Job, JobId, Kinds, SchedulerId, SharedGroup, TaskState, Text, Transaction,
    TransactionError, Version,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum number of concurrent explanations. Each may use a processor for a second in a large cell; the other
/// processors serve commits.
const EXPLAINED_MAX: usize = 2;

/// Number of further explanations for operators, who need them most while other callers use up their slots.
const RESERVED: usize = 1;

/// Retry delay for a caller who found no free slot: about the time of one explanation.
const PAUSE: Duration = Duration::from_millis(500);

/// Maximum bytes of a profile. The largest sensible profile has some kilobytes, and each of its filters is called for
/// each group and machine.
const PROFILE_BYTES_MAX: usize = 64 << 10;

/// Number of tasks that are read per lock of the cell.
const TASKS_AT_ONCE: usize = 8192;

/// A pending job, and the question asked about it.
#[derive(Clone, Debug)]
pub struct Question {
    /// Id of the job.
    pub id: JobId,
    /// The job.
    pub job: Arc<Job>,
    /// Number of pending tasks of each group of the job; 0 for groups that were not asked about.
    pub waiting: Vec<usize>,
    /// The resource kinds of the cell.
    pub kinds: Kinds,
    /// The text of a profile file; if empty, the built-in profile of the job's scheduler.
    pub profile: String,
    /// Whether the caller is gone, or its deadline has passed.
    is_dropped: Arc<AtomicBool>,
}

impl Question {
    /// Whether the answer is still needed. Once it is not, an explainer ends early, with any result.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        // No other memory depends on the flag.
        !self.is_dropped.load(Ordering::Relaxed)
    }
}

/// Ends the work on a question when it is dropped: after the answer, at the deadline, or when the caller is gone.
struct Asker(Arc<AtomicBool>);

impl Drop for Asker {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Explains why a job is pending.
pub trait Explainer: Send + Sync + std::fmt::Debug {
    /// Explains a job from the machines of `cell`. Called on a thread that may block, by a few callers at once. The
    /// work ends soon after [`Question::is_needed`] returns false.
    ///
    /// # Errors
    /// If the profile is invalid, or does not match the cell.
    fn explain(
        &self,
        cell: &ReadOnlyHandle,
        question: &Question,
    ) -> Result<proto::ExplainJobResponse, ApiError>;

    /// Formats an explanation as text.
    fn format(&self, explanation: proto::ExplainJobResponse) -> ExplanationText;
}

/// Explanation of a pending job, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplanationText {
    /// Summary in one line.
    pub summary: String,
    /// Full text.
    pub text: String,
}

/// A read-only handle of a cell.
#[derive(Debug)]
pub struct ReadOnlyHandle {
    host: Host,
    /// A caller that sees only some tenants, and the asked job's tenant with all tenants above it.
    bounded: Option<(Arc<Caller>, Vec<Text>)>,
}

impl ReadOnlyHandle {
    /// Removes the names of tenants that the caller does not see from reservations for others. The names that decide
    /// whether a reservation is for the job remain.
    fn hide_tenants(&self, delta: &mut Delta) {
        let Some((caller, line)) = &self.bounded else { return };
        for reservation in delta.policies.reservations.all.iter_mut().flatten() {
            let is_kept = |tenant: &Text| caller.may_see_tenant(tenant) || line.contains(tenant);
            reservation.tenants.retain(is_kept);
        }
    }
}

impl CellHandle for ReadOnlyHandle {
    /// Registers nothing, because the handle never commits. The returned id is not used.
    fn register(&self, _: Text) -> Result<(SchedulerId, u64), HandleError> {
        Ok((SchedulerId(u32::MAX), 0))
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.host.read(|cell| cell.delta_since(since, interest, delta));
        self.hide_tenants(delta);
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        Err(TransactionError::UnknownScheduler(txn.id.scheduler).into())
    }
}

/// The explainer of a server, with its slots. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Explanations {
    explainer: Option<Arc<dyn Explainer>>,
    places: Arc<Semaphore>,
    /// Slots for operators, if all other slots are taken.
    reserved: Arc<Semaphore>,
    /// Callers with a slot.
    callers: Arc<Mutex<HashSet<Arc<str>>>>,
}

/// A slot, and its caller.
struct Slot {
    _place: OwnedSemaphorePermit,
    /// `None` for the web page, whose explanations are cached.
    caller: Option<Arc<str>>,
    callers: Arc<Mutex<HashSet<Arc<str>>>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(caller) = &self.caller {
            self.callers.lock().remove(caller);
        }
    }
}

impl Explanations {
    pub(crate) fn new(explainer: Option<Arc<dyn Explainer>>) -> Explanations {
        let [places, reserved] =
            [EXPLAINED_MAX, RESERVED].map(|count| Arc::new(Semaphore::new(count)));
        Explanations { explainer, places, reserved, callers: Arc::default() }
    }

    /// Takes a slot. A caller has at most one, so that a single caller leaves slots to others.
    fn slot(&self, caller: Option<&Caller>) -> Result<Slot, ApiError> {
        let full = || {
            let message = "nothing was done: this replica already explains the maximum number of \
                 jobs, or another one for this caller: try again";
            ApiError::new(ErrorCode::Limit, message).retry_after(PAUSE)
        };
        let name = caller.map(|caller| &caller.name);
        let mut callers = self.callers.lock();
        if name.is_some_and(|name| callers.contains(name)) {
            return Err(full());
        }
        let is_operator = caller.is_none_or(|caller| caller.role == Role::Operator);
        let place = match self.places.clone().try_acquire_owned() {
            Err(_) if is_operator => self.reserved.clone().try_acquire_owned(),
            place => place,
        };
        let place = place.map_err(|_| full())?;
        callers.extend(name.cloned());
        Ok(Slot { _place: place, caller: name.cloned(), callers: self.callers.clone() })
    }

    /// Returns an explanation as text.
    ///
    /// # Errors
    /// As [`Explanations::explain`].
    pub(crate) async fn explain_text(
        &self,
        host: &Host,
        request: proto::ExplainJobRequest,
        until: Instant,
    ) -> Result<ExplanationText, ApiError> {
        let explanation = self.explain(host, None, request, until).await?;
        Ok(self
            .explainer
            .as_ref()
            .map(|explainer| explainer.format(explanation))
            .unwrap_or_default())
    }

    /// Explains a job with this replica's state. If the returned future is dropped, the work ends. Without a caller,
    /// the explanation is for the web page, which only callers with access to the whole cell may open.
    ///
    /// # Errors
    /// If the job does not exist, no slot is free, or the time limit passes.
    pub(crate) async fn explain(
        &self,
        host: &Host,
        caller: Option<&Arc<Caller>>,
        request: proto::ExplainJobRequest,
        until: Instant,
    ) -> Result<proto::ExplainJobResponse, ApiError> {
        let none = || ApiError::new(ErrorCode::NotOffered, "this server does not explain jobs");
        let explainer = self.explainer.clone().ok_or_else(none)?;
        if request.profile.len() > PROFILE_BYTES_MAX {
            let message = format!("profile: must be at most {PROFILE_BYTES_MAX} bytes");
            return Err(ApiError::new(ErrorCode::Malformed, message));
        }
        let slot = self.slot(caller.map(|caller| &**caller))?;
        let question = question(host, request).await?;
        let _asker = Asker(question.is_dropped.clone());
        let bounded = caller.filter(|caller| caller.is_bounded()).cloned();
        let bounded = bounded.map(|caller| (caller, line(host, &question.job.tenant)));
        let handle = ReadOnlyHandle { host: host.clone(), bounded };
        let explained = tokio::task::spawn_blocking(move || {
            // The slot is kept until the work has ended, even if the caller is gone.
            let _slot = slot;
            explainer.explain(&handle, &question)
        });
        let late = |_| {
            ApiError::new(
                ErrorCode::Late,
                "the explanation was not ready before the \
                 deadline: set a later deadline",
            )
        };
        let broken = |_| ApiError::new(ErrorCode::Internal, "the explanation failed");
        let mut explanation =
            timeout_at(until, explained).await.map_err(late)?.map_err(broken)??;
        explanation.unattended =
            explanation.waiting > 0 && !host.leases().is_owned(host, &explanation.scheduler);
        Ok(explanation)
    }
}

/// Builds the question from a request and the present state.
async fn question(host: &Host, request: proto::ExplainJobRequest) -> Result<Question, ApiError> {
    let proto::ExplainJobRequest { job, group, profile } = request;
    let (id, job, kinds) = host.read(|cell| {
        let id = refs::any_job(cell, job)?;
        let job = cell.job(id).expect("it was found").clone();
        if !group.is_empty() && !job.groups.iter().any(|known| *known.name == *group) {
            let message = format!("the job {:?} has no group {group:?}", &*job.name);
            return Err(ApiError::new(ErrorCode::UnknownGroup, message));
        }
        Ok((id, job, cell.kinds().clone()))
    })?;
    let is_asked = |known: &SharedGroup| group.is_empty() || *known.name == *group;
    let mut waiting = vec![0; job.groups.len()];
    let mut first = Some(0);
    while let Some(index) = first {
        first = host.read(|cell| {
            for (read_count, (task, state)) in cell.tasks_from(id, index).enumerate() {
                if read_count == TASKS_AT_ONCE {
                    return Some(task.index);
                }
                // An update may have added groups meanwhile.
                let known = cell.task_group(task).filter(|_| state == TaskState::Pending);
                if let Some(position) = known
                    && job.groups.get(position).is_some_and(is_asked)
                {
                    waiting[position] += 1;
                }
            }
            None
        });
        if first.is_some() {
            tokio::task::yield_now().await;
        }
    }
    Ok(Question { id, job, waiting, kinds, profile, is_dropped: Arc::default() })
}

/// A tenant, and all tenants above it.
fn line(host: &Host, tenant: &Text) -> Vec<Text> {
    host.read(|cell| {
        let parent = |tenant: &Text| cell.tenant_config(tenant)?.parent.clone();
        std::iter::successors(Some(tenant.clone()), parent).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{Amounts, Command, MachineSelector, Reservation, TaskGroup, TenantConfig};
    use tokio::sync::mpsc::{self, UnboundedSender};

    fn caller(name: &str, role: Role) -> Arc<Caller> {
        Arc::new(Caller { name: name.into(), role })
    }

    fn reader(name: &str) -> Arc<Caller> {
        caller(name, Role::Reader(vec!["shop".into()]))
    }

    #[test]
    fn a_caller_has_one_slot() {
        let explanations = Explanations::new(None);
        let [one, other, third] = ["one", "other", "third"].map(reader);
        let slot = explanations.slot(Some(&one)).expect("a slot");
        assert!(explanations.slot(Some(&one)).is_err());
        let _others = explanations.slot(Some(&other)).expect("a slot");
        assert!(explanations.slot(Some(&third)).is_err(), "all slots are taken");
        drop(slot);
        assert!(explanations.slot(Some(&one)).is_ok());
        assert!(explanations.slot(None).is_ok());
    }

    #[test]
    fn operators_have_a_slot_of_their_own() {
        let explanations = Explanations::new(None);
        let [one, other] = ["one", "other"].map(reader);
        let [ann, bob] = ["ann", "bob"].map(|name| caller(name, Role::Operator));
        let _slots = [&one, &other].map(|caller| explanations.slot(Some(caller)).expect("a slot"));
        let slot = explanations.slot(Some(&ann)).expect("the reserved slot");
        assert!(explanations.slot(Some(&bob)).is_err(), "all slots are taken");
        drop(slot);
        assert!(explanations.slot(Some(&reader("third"))).is_err());
        assert!(explanations.slot(Some(&bob)).is_ok());
    }

    /// Explainer that works until its answer is no longer needed, and reports its start and its end.
    #[derive(Debug)]
    struct Endless(UnboundedSender<&'static str>);

    impl Explainer for Endless {
        fn explain(
            &self,
            _: &ReadOnlyHandle,
            question: &Question,
        ) -> Result<proto::ExplainJobResponse, ApiError> {
            self.0.send("begin").expect("the test listens");
            while question.is_needed() {
                std::thread::yield_now();
            }
            self.0.send("end").expect("the test listens");
            Ok(proto::ExplainJobResponse::default())
        }

        fn format(&self, _: proto::ExplainJobResponse) -> ExplanationText {
            ExplanationText::default()
        }
    }

    /// A cell with a job of the tenant `shop`.
    fn cell() -> SharedCell {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let mut job = Job::batch("j", TaskGroup::new(1, Amounts::new([1])));
        job.tenant = "shop".into();
        cell.apply(Command::SubmitJob(job)).unwrap();
        cell
    }

    fn request() -> proto::ExplainJobRequest {
        let job = Some(proto::job_ref::Job::Name("j".to_owned()));
        proto::ExplainJobRequest { job: Some(proto::JobRef { job }), ..Default::default() }
    }

    #[tokio::test]
    async fn the_work_ends_when_the_caller_is_gone_or_its_deadline_passes() {
        let (reports, mut received) = mpsc::unbounded_channel();
        let explanations = Explanations::new(Some(Arc::new(Endless(reports))));
        let (host, [one, other]) = (Host::memory(cell()), ["one", "other"].map(reader));
        let hour = Instant::now() + Duration::from_secs(3600);
        tokio::select! {
            _ = explanations.explain(&host, Some(&one), request(), hour) => panic!("it has no end"),
            begun = received.recv() => assert_eq!(begun, Some("begin")),
        }
        assert_eq!(received.recv().await, Some("end"), "the caller is gone");
        let now = Instant::now();
        let late = explanations.explain(&host, Some(&other), request(), now).await.unwrap_err();
        assert_eq!(late.code, ErrorCode::Late);
        assert_eq!(received.recv().await, Some("begin"));
        assert_eq!(received.recv().await, Some("end"));
    }

    #[tokio::test]
    async fn a_large_profile_is_rejected() {
        let (reports, _heard) = mpsc::unbounded_channel();
        let explanations = Explanations::new(Some(Arc::new(Endless(reports))));
        let profile = "#".repeat((64 << 10) + 1);
        let requested = proto::ExplainJobRequest { profile, ..request() };
        let (host, one) = (Host::memory(cell()), reader("one"));
        let refused = explanations.explain(&host, Some(&one), requested, Instant::now()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Malformed);
    }

    #[test]
    fn reservations_for_others_name_only_visible_tenants() {
        let cell = cell();
        let host = Host::memory(cell.clone());
        let below = TenantConfig { parent: Some("trade".into()), ..TenantConfig::default() };
        cell.apply(Command::SetTenant { tenant: "shop".into(), tenant_config: below }).unwrap();
        for (name, tenants) in [("a", ["bank", "trade"]), ("b", ["bank", "film"])] {
            let reserved = Reservation {
                name: name.into(),
                machines: MachineSelector::label("rack", "a"),
                tenants: tenants.map(Text::from).into(),
                from_ms: 0,
                until_ms: 1 << 40,
            };
            cell.apply(Command::Reserve(reserved)).unwrap();
        }
        let line = line(&host, &"shop".into());
        assert_eq!(line, ["shop", "trade"].map(Text::from));
        let bounded = Some((reader("one"), line));
        let names = |bounded| {
            let handle = ReadOnlyHandle { host: host.clone(), bounded };
            let mut delta = Delta::default();
            handle.sync(Version(0), &Interest::default(), &mut delta).expect("a delta");
            let all = delta.policies.reservations.all.unwrap_or_default();
            all.iter().map(|one| one.tenants.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(names(bounded), ["trade", ""]);
        assert_eq!(names(None), ["bank trade", "bank film"]);
    }
}
