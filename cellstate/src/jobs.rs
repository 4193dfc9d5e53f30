//! The master's jobs and the states of their tasks.
//!
//! Jobs are numbered upwards and never again, so they live in pages that are dropped once all
//! jobs of a page are forgotten: a lookup is two indexed loads, and a cell that has seen a
//! billion jobs does not remember them.

use crate::facts::Need;
use omega_core::{CardSet, Job, JobId, TaskId, TaskState};
use smallvec::SmallVec;
use std::sync::Arc;

const PAGE: usize = 256;

/// A job that the cell knows.
#[derive(Clone, Debug)]
pub(crate) struct JobRecord {
    pub(crate) spec: Arc<Job>,
    /// The scheduler name as a number, for the filter of deltas.
    pub(crate) owner: OwnerId,
    pub(crate) tenant: u32,
    /// One group is the rule, and few tasks are not rare: then a claim finds all of the job in
    /// one place.
    pub(crate) groups: SmallVec<[GroupRecord; 1]>,
    pub(crate) tasks: SmallVec<[TaskRecord; 2]>,
    /// Whether a group ever had another count: then tasks are not numbered group by group.
    pub(crate) resized: bool,
    /// How many tasks have a machine.
    pub(crate) placed: u32,
    /// How many tasks have not ended.
    pub(crate) alive: u32,
}

/// A scheduler's name, numbered by the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerId(pub(crate) u32);

/// A group of a job.
#[derive(Clone, Debug)]
pub(crate) struct GroupRecord {
    pub(crate) need: Need,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskRecord {
    pub(crate) state: TaskState,
    pub(crate) cards: CardSet,
    pub(crate) group: u16,
    pub(crate) failures: u16,
}

impl TaskRecord {
    pub(crate) fn pending(group: usize) -> TaskRecord {
        TaskRecord {
            state: TaskState::Pending,
            cards: CardSet::default(),
            group: group as u16,
            failures: 0,
        }
    }
}

impl JobRecord {
    /// What a task needs.
    pub(crate) fn need(&self, task: &TaskRecord) -> &Need {
        &self.groups[usize::from(task.group)].need
    }
}

type Page = Box<[Option<Box<JobRecord>>; PAGE]>;

/// All jobs, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    pages: Vec<Option<Page>>,
    next: u64,
}

impl Jobs {
    /// The number that the next job gets.
    pub(crate) fn next_id(&self) -> JobId {
        JobId(self.next)
    }

    /// Adds a job under [`Jobs::next_id`].
    pub(crate) fn push(&mut self, record: JobRecord) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        let (page, index) = split(id);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([const { None }; PAGE]));
        page[index] = Some(Box::new(record));
        id
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&JobRecord> {
        let (page, index) = split(id);
        self.pages.get(page)?.as_ref()?[index].as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut JobRecord> {
        let (page, index) = split(id);
        self.pages.get_mut(page)?.as_mut()?[index].as_deref_mut()
    }

    /// A task and its job.
    pub(crate) fn task(&self, id: TaskId) -> Option<(&JobRecord, &TaskRecord)> {
        let job = self.get(id.job)?;
        Some((job, job.tasks.get(id.index as usize)?))
    }

    /// Forgets a job.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<JobRecord> {
        let (page_index, index) = split(id);
        let page = self.pages.get_mut(page_index)?;
        let record = page.as_mut()?[index].take()?;
        let full_page = (page_index as u64 + 1) * PAGE as u64 <= self.next;
        if full_page && page.as_ref().is_some_and(|jobs| jobs.iter().all(Option::is_none)) {
            *page = None;
        }
        Some(*record)
    }

    /// Every job, ascending by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, &JobRecord)> {
        let pages = self.pages.iter().enumerate();
        pages.filter_map(|(p, page)| Some((p, page.as_ref()?))).flat_map(|(p, page)| {
            let id = move |i: usize| JobId((p * PAGE + i) as u64);
            page.iter().enumerate().filter_map(move |(i, job)| Some((id(i), job.as_deref()?)))
        })
    }

    /// The ids of every job, ascending.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        self.iter().map(|(id, _)| id).collect()
    }
}

fn split(id: JobId) -> (usize, usize) {
    ((id.0 / PAGE as u64) as usize, (id.0 % PAGE as u64) as usize)
}
