//! The cell's jobs and the states of their tasks.
//!
//! Job numbers ascend and are never reused. Jobs are stored in pages, and a page is dropped once all its jobs are
//! forgotten. So a lookup costs two indexed loads, and memory is bounded by the jobs that exist. After a restore, only
//! the latest pages are in the indexed list. The few older pages, of very long-running jobs, are in a tree.
//!
//! During a capture (see `snapshot/capture.rs`), a page is copied before any of its jobs changes. All changes go
//! through `get_mut`, `push` or `remove`, so while no capture runs, the price is one branch in each of these functions.

use crate::rules::{Tracked, TrackerId, TrackerKey};
use crate::state::attributes::{Attribute, ByAttribute};
use crate::state::job_record::{JobRecord, JobSnapshot, OwnerId, TaskRecord};
use crate::state::map::FastMap;
use crate::state::recent_groups::RecentGroups;
use omega_core::{Job, JobId, TaskId, Text, Version};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Jobs per page. A capture copies a page at a time, which takes some 30 microseconds.
const PAGE: usize = 256;

/// Number of latest pages that a restored cell keeps in its indexed list, which takes 8 MB. At 200 jobs a second, these
/// pages have the jobs of half a month.
const LISTED: u64 = 1 << 20;

type Page = Box<[Option<Box<JobRecord>>; PAGE]>;

/// All jobs, by number and by name.
///
/// Invariant: `names` contains exactly the names of these jobs.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    /// The pages from number `first` on; `None` if all jobs of a page are forgotten.
    pages: Vec<Option<Page>>,
    first: u64,
    /// Older pages, by number.
    old: BTreeMap<u64, Page>,
    next: u64,
    names: FastMap<Text, JobId>,
    /// The schedulers that the jobs name.
    owners: FastMap<Text, Owner>,
    /// Owners without jobs, each with the version in which its last job was removed, oldest first.
    idle_owners: VecDeque<(Version, Text)>,
    /// Numbers of former owners, which are used again.
    free_owners: Vec<OwnerId>,
    /// The unfinished jobs by the attributes of their tasks. Made when a rule first selects tasks by an attribute.
    by_attribute: Option<ByAttribute<JobId>>,
    recent_groups: RecentGroups,
    saving: Option<Box<Saving>>,
}

/// A scheduler that jobs name.
#[derive(Clone, Copy, Debug)]
struct Owner {
    id: OwnerId,
    /// Number of the jobs that name the scheduler.
    jobs: u64,
    /// The version in which the latest job was removed.
    removed: Version,
}

/// The pages that existed when the running capture began.
#[derive(Clone, Debug)]
struct Saving {
    /// Numbers of the pages in ascending order, each with a copy of its jobs once it is copied.
    pages: Vec<(u64, Option<Vec<JobSnapshot>>)>,
    /// All pages before this position are copied.
    next: usize,
}

impl Jobs {
    /// An empty list whose first job will get the id `next`. It has room for the names of `count` jobs.
    pub fn starting_at(next: JobId, count: usize) -> Jobs {
        let first = (next.0 / PAGE as u64).saturating_sub(LISTED);
        let mut jobs = Jobs { next: next.0, first, ..Jobs::default() };
        jobs.names.reserve(count);
        jobs
    }

    /// The job with this name.
    pub fn by_name(&self, name: &str) -> Option<JobId> {
        self.names.get(name).copied()
    }

    /// The number of a scheduler's name, for one more job. A name without a number gets one.
    pub fn add_to_owner(&mut self, name: &Text) -> OwnerId {
        if let Some(owner) = self.owners.get_mut(name) {
            owner.jobs += 1;
            return owner.id;
        }
        let id = self.free_owners.pop().unwrap_or(OwnerId(self.owners.len() as u32));
        self.owners.insert(name.clone(), Owner { id, jobs: 1, removed: Version(0) });
        id
    }

    fn remove_from_owner(&mut self, name: &Text, now: Version) {
        let Some(owner) = self.owners.get_mut(name) else { return };
        owner.jobs -= 1;
        owner.removed = now;
        if owner.jobs == 0 {
            self.idle_owners.push_back((now, name.clone()));
        }
    }

    /// Forgets owners whose last job was removed at or before a version. All readers at such versions must get whole
    /// deltas: the others still need the owner's number to learn of the removal.
    pub fn forget_owners(&mut self, until: Version) {
        while let Some((_, name)) = self.idle_owners.pop_front_if(|(removed, _)| *removed <= until)
        {
            let is_idle = |owner: &&Owner| owner.jobs == 0 && owner.removed <= until;
            if let Some(owner) = self.owners.get(&name).filter(is_idle) {
                self.free_owners.push(owner.id);
                self.owners.remove(&name);
            }
        }
    }

    /// Makes a new job share the memory of equal scheduler names and equal groups with earlier jobs.
    pub fn share_parts(&mut self, job: &mut Job) {
        if let Some((name, _)) = self.owners.get_key_value(&job.scheduler) {
            job.scheduler = name.clone();
        }
        job.groups.iter_mut().for_each(|group| self.recent_groups.share(group));
    }

    /// The number of a scheduler's name, if it has one.
    pub fn owner(&self, name: &Text) -> Option<OwnerId> {
        self.owners.get(name).map(|owner| owner.id)
    }

    /// The id that the next job will get.
    pub fn next_id(&self) -> JobId {
        JobId(self.next)
    }

    /// Adds a job with the id [`Jobs::next_id`].
    pub fn push(&mut self, record: JobRecord) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        self.save_before_change(id);
        self.put(id, record);
        id
    }

    /// Inserts a restored job under its former id.
    pub fn put(&mut self, id: JobId, record: JobRecord) {
        self.names.insert(record.spec.name.clone(), id);
        let (number, index) = split(id);
        let page = match number.checked_sub(self.first) {
            None => self.old.entry(number).or_insert_with(new_page),
            Some(at) => {
                let at = at as usize;
                if self.pages.len() <= at {
                    self.pages.resize_with(at + 1, || None);
                }
                self.pages[at].get_or_insert_with(new_page)
            }
        };
        page[index] = Some(Box::new(record));
        self.list_attributes(id);
    }

    pub fn get(&self, id: JobId) -> Option<&JobRecord> {
        let (number, index) = split(id);
        self.page(number)?[index].as_deref()
    }

    pub fn get_mut(&mut self, id: JobId) -> Option<&mut JobRecord> {
        self.save_before_change(id);
        let (number, index) = split(id);
        self.page_mut(number)?[index].as_deref_mut()
    }

    #[inline]
    fn page(&self, number: u64) -> Option<&Page> {
        match number.checked_sub(self.first) {
            Some(at) => self.pages.get(at as usize)?.as_ref(),
            None => self.old.get(&number),
        }
    }

    #[inline]
    fn page_mut(&mut self, number: u64) -> Option<&mut Page> {
        match number.checked_sub(self.first) {
            Some(at) => self.pages.get_mut(at as usize)?.as_mut(),
            None => self.old.get_mut(&number),
        }
    }

    /// A task and its job.
    pub fn task(&self, id: TaskId) -> Option<(&JobRecord, &TaskRecord)> {
        let job = self.get(id.job)?;
        Some((job, job.tasks.get(id.index as usize)?))
    }

    /// Removes a job in this version.
    pub fn remove(&mut self, id: JobId, now: Version) -> Option<JobRecord> {
        self.save_before_change(id);
        self.unlist_attributes(id);
        let (number, index) = split(id);
        let full = (number + 1) * PAGE as u64 <= self.next;
        let page = self.page_mut(number)?;
        let record = page[index].take()?;
        if full && page.iter().all(Option::is_none) {
            match number.checked_sub(self.first) {
                Some(at) => self.pages[at as usize] = None,
                None => _ = self.old.remove(&number),
            }
        }
        self.names.remove(&record.spec.name);
        self.remove_from_owner(&record.spec.scheduler, now);
        Some(*record)
    }

    /// Every page, in ascending order.
    fn pages(&self) -> impl Iterator<Item = (u64, &Page)> {
        let old = self.old.iter().map(|(number, page)| (*number, page));
        let listed = (self.first..).zip(&self.pages);
        old.chain(listed.filter_map(|(number, page)| Some((number, page.as_ref()?))))
    }

    /// Every job, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &JobRecord)> {
        self.pages().flat_map(|(number, page)| jobs_of(number, page))
    }

    /// Every job with this id or a higher id, in ascending order.
    pub fn iter_from(&self, first: JobId) -> impl Iterator<Item = (JobId, &JobRecord)> {
        let (from, _) = split(first);
        let old = self.old.range(from..).map(|(number, page)| (*number, page));
        let skipped = from.saturating_sub(self.first).min(self.pages.len() as u64);
        let listed = (self.first + skipped..).zip(&self.pages[skipped as usize..]);
        let pages = old.chain(listed.filter_map(|(number, page)| Some((number, page.as_ref()?))));
        pages
            .flat_map(|(number, page)| jobs_of(number, page))
            .skip_while(move |(id, _)| *id < first)
    }

    /// The ids of all jobs, in ascending order.
    pub fn ids(&self) -> Vec<JobId> {
        self.iter().map(|(id, _)| id).collect()
    }
}

/// Jobs by attribute.
impl Jobs {
    /// The jobs that may have tasks which some trackers count, in ascending order, each with the positions of these
    /// trackers as bits. Every unfinished job with such tasks is included. At most 64 trackers may be given.
    pub fn counted_by(&mut self, trackers: &[(TrackerId, TrackerKey)]) -> BTreeMap<JobId, u64> {
        let is_anywhere =
            |tracked: &Tracked| tracked.job().is_none() && tracked.attributes().is_empty();
        let (mut anywhere, mut narrow) = (0, Vec::new());
        for (position, (_, key)) in trackers.iter().enumerate() {
            if is_anywhere(&key.tracked) {
                anywhere |= 1 << position;
            } else {
                narrow.push((position, &key.tracked));
            }
        }
        let all = if anywhere == 0 { Vec::new() } else { self.ids() };
        let mut found: BTreeMap<JobId, u64> = all.into_iter().map(|id| (id, anywhere)).collect();
        for (position, tracked) in narrow {
            for id in self.candidates(tracked) {
                *found.entry(id).or_default() |= 1 << position;
            }
        }
        found
    }

    /// The jobs that may have tasks which a rule counts, in ascending order.
    fn candidates(&mut self, tracked: &Tracked) -> Vec<JobId> {
        if let Some(job) = tracked.job() {
            return vec![job];
        }
        let attributes = tracked.attributes();
        let index = self.by_attribute.take().unwrap_or_else(|| self.index_attributes());
        let index = self.by_attribute.insert(index);
        let rarest = index.rarest(attributes).unwrap_or_default();
        let found: BTreeSet<JobId> =
            rarest.iter().flat_map(|attribute| index.with(attribute)).collect();
        found.into_iter().collect()
    }

    fn index_attributes(&self) -> ByAttribute<JobId> {
        let mut index = ByAttribute::default();
        for (id, job) in self.iter().filter(|(_, job)| !job.groups.is_empty()) {
            attributes_of(job).for_each(|attribute| index.add(attribute, id));
        }
        index
    }

    /// Whether the index by attribute, if there is one, equals a newly built one.
    pub fn attributes_are_right(&self) -> bool {
        self.by_attribute.as_ref().is_none_or(|index| *index == self.index_attributes())
    }

    /// Adds a job with new groups to the index, under the attributes of these groups.
    pub fn list_attributes(&mut self, id: JobId) {
        let Some(mut index) = self.by_attribute.take() else { return };
        if let Some(job) = self.get(id).filter(|job| !job.groups.is_empty()) {
            attributes_of(job).for_each(|attribute| index.add(attribute, id));
        }
        self.by_attribute = Some(index);
    }

    /// Removes a job that ends, or whose groups are about to change, from the index.
    pub fn unlist_attributes(&mut self, id: JobId) {
        let Some(mut index) = self.by_attribute.take() else { return };
        if let Some(job) = self.get(id) {
            attributes_of(job).for_each(|attribute| index.remove(&attribute, id));
        }
        self.by_attribute = Some(index);
    }
}

fn attributes_of(job: &JobRecord) -> impl Iterator<Item = Attribute> + '_ {
    job.spec.groups.iter().flat_map(|group| Attribute::of(&group.labels, &group.rules.ports))
}

/// Captures.
impl Jobs {
    /// Begins a capture of the present content of all pages.
    pub fn begin_saving(&mut self) {
        let pages = self.pages().map(|(number, _)| (number, None)).collect();
        self.saving = Some(Box::new(Saving { pages, next: 0 }));
    }

    /// Copies up to `count` more pages, and returns their number.
    pub fn save_more(&mut self, count: usize) -> usize {
        let Some(mut saving) = self.saving.take() else { return 0 };
        let mut copied = 0;
        while copied < count && saving.next < saving.pages.len() {
            let (number, page) = &mut saving.pages[saving.next];
            if page.is_none() {
                *page = Some(self.copy_page(*number));
                copied += 1;
            }
            saving.next += 1;
        }
        self.saving = Some(saving);
        copied
    }

    /// Ends a capture, and returns the copied pages.
    pub fn end_saving(&mut self) -> Vec<Vec<JobSnapshot>> {
        let pages = self.saving.take().map_or(Vec::new(), |saving| saving.pages);
        pages.into_iter().filter_map(|(_, page)| page).collect()
    }

    #[inline]
    fn save_before_change(&mut self, id: JobId) {
        if self.saving.is_some() {
            self.save_page_of(id);
        }
    }

    #[cold]
    fn save_page_of(&mut self, id: JobId) {
        let Some(mut saving) = self.saving.take() else { return };
        let (number, _) = split(id);
        if let Ok(at) = saving.pages.binary_search_by_key(&number, |(number, _)| *number) {
            let page = &mut saving.pages[at].1;
            if page.is_none() {
                *page = Some(self.copy_page(number));
            }
        }
        self.saving = Some(saving);
    }

    fn copy_page(&self, number: u64) -> Vec<JobSnapshot> {
        let jobs = self.page(number).into_iter().flat_map(|page| jobs_of(number, page));
        jobs.map(|(id, job)| JobSnapshot::of(id, job)).collect()
    }
}

/// The jobs of a page, in ascending order.
fn jobs_of(number: u64, page: &Page) -> impl Iterator<Item = (JobId, &JobRecord)> {
    let ids = (number * PAGE as u64..).map(JobId);
    ids.zip(page.iter()).filter_map(|(id, job)| Some((id, job.as_deref()?)))
}

fn new_page() -> Page {
    Box::new([const { None }; PAGE])
}

/// The page of a job, and the job's position on the page.
fn split(id: JobId) -> (u64, usize) {
    (id.0 / PAGE as u64, (id.0 % PAGE as u64) as usize)
}

#[cfg(test)]
mod tests {
    use crate::cell::Cell;
    use crate::delta::{Delta, Interest, Share};
    use omega_core::{Amounts, Command, Job, JobId, Kinds, Outcome, TaskGroup, Version};

    fn submit(cell: &mut Cell, scheduler: &str) -> JobId {
        let group = TaskGroup::new(1, Amounts::new([1]));
        let job = Job { scheduler: scheduler.into(), ..Job::batch("job", group) };
        match cell.apply(Command::SubmitJob(job)) {
            Ok(Outcome::Job(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_learns_of_the_end_of_its_last_job() {
        let mut cell = Cell::new(Kinds::standard());
        let interest = Interest::JobsOf("a".into(), Share::ALL);
        let job = submit(&mut cell, "a");
        let mut delta = Delta::default();
        cell.delta_since(Version(0), &interest, &mut delta);
        let known = delta.to;
        cell.apply(Command::DeleteJob { job }).unwrap();
        submit(&mut cell, "b");
        cell.delta_since(known, &interest, &mut delta);
        let ends: Vec<(JobId, bool)> =
            delta.jobs.iter().map(|change| (change.id, change.job.is_none())).collect();
        assert_eq!(ends, [(job, true)]);
    }

    #[test]
    fn schedulers_without_jobs_are_forgotten() {
        let mut cell = Cell::with_change_limit(Kinds::standard(), 8);
        for round in 0..1000 {
            let job = submit(&mut cell, &format!("scheduler-{round}"));
            cell.apply(Command::DeleteJob { job }).unwrap();
        }
        assert!(cell.jobs.owners.len() <= 16, "{}", cell.jobs.owners.len());
        assert!(cell.jobs.free_owners.len() <= 16);
        let of_one = ["a", "a", "b"].map(|name| cell.jobs.add_to_owner(&name.into()));
        assert_eq!(of_one[0], of_one[1]);
        assert_ne!(of_one[0], of_one[2]);
    }
}
