//! Fair shares of tenants: a tree of tenants, ordered by weighted share.
//!
//! The tenant with the lowest [dominant share](crate::queue::dominant) goes first. In a tree, tenants are compared
//! level by level from the top, and the share of a branch is the share of all its tenants together. (Bhattacharya et
//! al., "Hierarchical Scheduling for Diverse Datacenter Workloads", SoCC 2013, without its correction for resource
//! kinds that a branch has used up.) A tenant's own jobs go before the jobs of the tenants below it. Tenants with equal
//! shares go in the order of their names.
//!
//! ```text
//!   top ── waiting: (share, name) ascending
//!     ├── ads      0.10   jobs: in the order of the plugin
//!     └── search   0.25   waiting: crawl 0.05, index 0.20
//! ```
//!
//! Invariant: a node is in its parent's `waiting`, with its present share, if and only if a job is pending in the node
//! or below it.
//!
//! Until the cell reports a tenant, all shares are equal, and all jobs are in the top node, in one common order.
//!
//! So the next job is found by following the first node of each level. A claim moves only its tenant's node and the
//! ancestors of this node. The number of nodes in both operations does not depend on the number of tenants with
//! pending jobs.

use crate::framework::points::Order;
use crate::queue::dominant::{Share, Sums, Totals, Weight};
use crate::queue::place_in_order::{Place, remove_place};
use foldhash::fast::FixedState;
use omega_cellstate::{TenantDelta, TenantTerms, View};
use omega_core::{Amounts, Job, JobId, KindId, Text};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Position of a node in the list of nodes, which identifies the node.
type NodeId = usize;

/// Maximum number of pending tenants that are considered to compute the size of a turn. With more tenants, each gets
/// only a small part of a transaction, and the order of turns is enough.
const LEVELLED_MAX: usize = 64;

/// The node above all tenants.
const TOP: NodeId = 0;

/// Jobs by tenant. See the head of the file.
#[derive(Debug)]
pub(crate) struct Shares {
    order: Arc<dyn Order>,
    nodes: Vec<Node>,
    by_name: HashMap<Text, NodeId, FixedState>,
    totals: Totals,
    /// Free resources: the totals minus the tenants' usage at the last sync, and minus the scheduler's own claims that
    /// this usage does not include.
    free: Sums,
    /// Value of the view's machine-change counter when the totals were computed.
    counted: Option<u64>,
    /// Whether the cell has reported any tenant.
    has_tenants: bool,
    /// Nodes with claims since the last sync.
    claimed: Vec<NodeId>,
    jobs: usize,
    /// Number of tenants with pending jobs.
    tenants: usize,
}

/// A tenant. Nodes are never removed.
#[derive(Debug)]
struct Node {
    name: Text,
    /// The tenant's configuration in the cell; `None` if the cell reported none since the last full delta.
    terms: Option<Arc<TenantTerms>>,
    parent: NodeId,
    weight: Weight,
    /// Usage of the tenant and all tenants below it, as of the last sync.
    used: Sums,
    /// Claims since the last sync, for the tenant and all tenants below it.
    claimed: Sums,
    /// Whether the list of nodes with claims since the last sync includes the node.
    has_claims: bool,
    share: Share,
    /// Number of the tenant's pending jobs.
    pending: usize,
    /// The tenant's pending jobs or, in the top node, those of all tenants until the cell reports one.
    jobs: BTreeSet<Place>,
    /// Child nodes with pending jobs in their subtree.
    waiting: BTreeSet<(Share, Text, NodeId)>,
}

impl Node {
    fn new(name: Text) -> Node {
        Node {
            name,
            terms: None,
            parent: TOP,
            weight: Weight::ONE,
            used: Sums::default(),
            claimed: Sums::default(),
            has_claims: false,
            share: Share::default(),
            pending: 0,
            jobs: BTreeSet::new(),
            waiting: BTreeSet::new(),
        }
    }

    fn waits(&self) -> bool {
        !self.jobs.is_empty() || !self.waiting.is_empty()
    }
}

impl Shares {
    pub(crate) fn new(order: Arc<dyn Order>) -> Shares {
        Shares {
            order,
            nodes: vec![Node::new(Text::default())],
            by_name: HashMap::default(),
            totals: Totals::default(),
            free: Sums::default(),
            counted: None,
            has_tenants: false,
            claimed: Vec::new(),
            jobs: 0,
            tenants: 0,
        }
    }

    /// Number of pending jobs.
    pub(crate) fn len(&self) -> usize {
        self.jobs
    }

    /// Number of tenants with pending jobs.
    pub(crate) fn tenants(&self) -> usize {
        self.tenants
    }

    /// The job with the next turn.
    pub(crate) fn first(&self) -> Option<JobId> {
        let mut node = &self.nodes[TOP];
        loop {
            match node.jobs.first() {
                Some(job) => return Some(job.id),
                None => node = &self.nodes[node.waiting.first()?.2],
            }
        }
    }

    /// Adds a job that is not in the queue.
    pub(crate) fn insert(&mut self, job: &Arc<Job>, id: JobId) {
        let tenant = self.node(&job.tenant);
        let place = Place::new(&self.order, job, id);
        if self.put(if self.has_tenants { tenant } else { TOP }, place) {
            let pending = &mut self.nodes[tenant].pending;
            *pending += 1;
            self.tenants += usize::from(*pending == 1);
            self.jobs += 1;
        }
    }

    /// Adds a job to a node. Returns whether the job was not there.
    fn put(&mut self, node: NodeId, place: Place) -> bool {
        let waited = self.nodes[node].waits();
        let is_new = self.nodes[node].jobs.insert(place);
        if !waited {
            self.join(node);
        }
        is_new
    }

    /// Removes a job, if it is in the queue.
    pub(crate) fn remove(&mut self, job: &Arc<Job>, id: JobId) {
        let Some(&tenant) = self.by_name.get(&job.tenant) else { return };
        let node = if self.has_tenants { tenant } else { TOP };
        let place = Place::new(&self.order, job, id);
        if !remove_place(&mut self.nodes[node].jobs, &place) {
            return;
        }
        self.jobs -= 1;
        let pending = &mut self.nodes[tenant].pending;
        *pending -= 1;
        self.tenants -= usize::from(*pending == 0);
        if !self.nodes[node].waits() {
            self.leave(node);
        }
    }

    /// Applies the last sync of a view.
    pub(crate) fn apply_sync(&mut self, view: &View) {
        let delta = view.delta();
        let tally = view.change_counts();
        let changes = tally.added + tally.changed + tally.removed;
        let recount = delta.full || self.counted != Some(changes);
        if recount {
            self.counted = Some(changes);
            self.totals = Totals::of(view);
        }
        self.apply_tenants(delta.full, &delta.tenants);
        self.count_free(view.kinds().count());
        // The view has claims of its own that the cell does not report yet.
        for (tenant, amounts) in view.own_use() {
            let amounts = amounts.into_iter().map(|amount| amount.max(0).cast_unsigned());
            self.claim(&tenant, &Amounts::new(amounts), 1);
        }
        if recount {
            (1..self.nodes.len()).for_each(|node| self.update_share(node));
        }
    }

    /// Sets the free resources to the totals minus the tenants' usage.
    fn count_free(&mut self, kinds: usize) {
        self.free.clear();
        self.free.extend((0..).map(KindId).take(kinds).map(|kind| self.totals.get(kind)));
        for node in self.nodes.iter().skip(1).filter(|node| node.parent == TOP) {
            for (free, used) in self.free.iter_mut().zip(&node.used) {
                *free = free.saturating_sub(*used);
            }
        }
    }

    /// Applies the tenants' configuration and usage. With `full`, tenants that are not listed use nothing.
    fn apply_tenants(&mut self, full: bool, tenants: &[TenantDelta]) {
        let claimed = std::mem::take(&mut self.claimed);
        claimed.iter().for_each(|node| self.nodes[*node].claimed.clear());
        if full {
            for node in 1..self.nodes.len() {
                self.nodes[node].used.clear();
                self.nodes[node].terms = None;
                self.attach(node, TOP, 1);
                self.update_share(node);
            }
        }
        let nodes: Vec<NodeId> =
            tenants.iter().map(|tenant| self.node(&tenant.terms.name)).collect();
        self.configure(&nodes, tenants);
        for (node, tenant) in nodes.iter().zip(tenants) {
            let used = &mut self.nodes[*node].used;
            used.clear();
            used.extend(tenant.used.iter().map(|used| (*used).max(0).cast_unsigned()));
            self.nodes[*node].has_claims = false;
            self.update_share(*node);
        }
        for node in claimed {
            if std::mem::take(&mut self.nodes[node].has_claims) {
                self.update_share(node);
            }
        }
        self.regroup(!tenants.is_empty() || self.has_tenants && !full);
    }

    /// Records whether the cell has reported a tenant, and moves the jobs to the nodes where they belong then.
    fn regroup(&mut self, has_tenants: bool) {
        if has_tenants == self.has_tenants {
            return;
        }
        self.has_tenants = has_tenants;
        if has_tenants {
            for place in std::mem::take(&mut self.nodes[TOP].jobs) {
                let node = self.node(place.tenant());
                self.put(node, place);
            }
        } else {
            let mut jobs = BTreeSet::new();
            for node in &mut self.nodes {
                node.waiting.clear();
                jobs.append(&mut node.jobs);
            }
            self.nodes[TOP].jobs = jobs;
        }
    }

    /// Applies the configuration of tenants whose terms changed. The caller then updates their shares.
    fn configure(&mut self, nodes: &[NodeId], tenants: &[TenantDelta]) {
        // First all nodes with a new parent move to the top, so that the tree never has a cycle.
        let mut changed: Vec<(NodeId, &TenantDelta)> = Vec::new();
        for (&node, tenant) in nodes.iter().zip(tenants) {
            let known = self.nodes[node].terms.as_ref();
            if known.is_some_and(|known| Arc::ptr_eq(known, &tenant.terms)) {
                continue;
            }
            self.nodes[node].terms = Some(tenant.terms.clone());
            if self.parent_of(tenant) != self.nodes[node].parent {
                self.attach(node, TOP, tenant.terms.tenant_config.weight);
            }
            changed.push((node, tenant));
        }
        for (node, tenant) in changed {
            let parent = self.parent_of(tenant);
            self.attach(node, parent, tenant.terms.tenant_config.weight);
        }
    }

    /// Number of a job's tasks to claim in this turn, at most `room`, the free space in the transaction.
    ///
    /// The number is the part that the tenant would get if all pending tenants were served until their shares are
    /// equal. So each transaction has claims of all tenants by weight, even if each tenant has only one large job.
    /// Tasks of other tenants are assumed to be equally large; the order of turns corrects the difference.
    pub(crate) fn turn(&self, job: &Job, room: usize) -> usize {
        let equal = room.div_ceil(self.tenants().max(1));
        let requests = || job.groups.iter().map(|group| &group.request);
        let share =
            |request: &Amounts| self.totals.share([&request.as_slice().to_vec()], Weight::ONE);
        let task = requests().map(share).max();
        let (Some(task), Some(&tenant)) = (task, self.by_name.get(&job.tenant)) else {
            return equal;
        };
        if !self.has_tenants || task == Share::default() {
            return equal;
        }
        let mut line: SmallVec<[NodeId; 4]> = SmallVec::new();
        let mut at = tenant;
        while at != TOP {
            line.push(at);
            at = self.nodes[at].parent;
        }
        // Only the tasks for which there is room are divided among the tenants.
        let free = requests().map(|request| self.room_for(request)).max().unwrap_or(0);
        let mut left = room.min(free).max(1);
        for node in line.into_iter().rev() {
            match self.level(node, task, left) {
                Some(part) => left = part,
                None => return equal,
            }
        }
        left
    }

    /// Number of tasks that would fit if all free resources were on one machine.
    fn room_for(&self, request: &Amounts) -> usize {
        let asked = request.iter().filter(|(_, amount)| *amount > 0);
        let free = |kind: KindId| self.free.get(kind.index()).copied().unwrap_or(0);
        let room = asked.map(|(kind, amount)| free(kind) / amount).min();
        room.map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Number of tasks that a node gets if it and its pending siblings are served until their shares are equal; `None`
    /// if there are too many siblings.
    fn level(&self, node: NodeId, task: Share, tasks: usize) -> Option<usize> {
        let Node { parent, share, weight, .. } = &self.nodes[node];
        let (task, tasks) = (u128::from(task.parts()), tasks as u128);
        // The level is `(tasks * task + sum) / weights`. It is divided only once, because such a division is slow.
        let (mut weights, mut sum) = (0, 0);
        for (seen, (share, _, other)) in self.nodes[*parent].waiting.iter().enumerate() {
            let (share, weight) = (u128::from(share.parts()), self.nodes[*other].weight);
            let is_above = (share + 1) * weights > tasks * task + sum;
            if is_above {
                break;
            }
            if seen == LEVELLED_MAX {
                return None;
            }
            weights += u128::from(weight.get());
            sum += share * u128::from(weight.get());
        }
        if weights == 0 {
            return None;
        }
        let level = (tasks * task + sum) / weights;
        let more = level.saturating_sub(u128::from(share.parts())) * u128::from(weight.get());
        Some(more.div_ceil(task).clamp(1, tasks.max(1)) as usize)
    }

    /// Counts claims of a tenant, for the tenant and all tenants above it.
    pub(crate) fn claim(&mut self, tenant: &Text, request: &Amounts, tasks: usize) {
        for (kind, amount) in request.iter() {
            if let Some(free) = self.free.get_mut(kind.index()) {
                *free = free.saturating_sub(amount.saturating_mul(tasks as u64));
            }
        }
        let mut at = self.node(tenant);
        while at != TOP {
            let node = &mut self.nodes[at];
            if !std::mem::replace(&mut node.has_claims, true) {
                self.claimed.push(at);
            }
            for (kind, amount) in request.iter() {
                if node.claimed.len() <= kind.index() {
                    node.claimed.resize(kind.index() + 1, 0);
                }
                let more = amount.saturating_mul(tasks as u64);
                node.claimed[kind.index()] = node.claimed[kind.index()].saturating_add(more);
            }
            self.update_share(at);
            at = self.nodes[at].parent;
        }
    }

    /// The node of a tenant, created if needed.
    fn node(&mut self, name: &Text) -> NodeId {
        if let Some(&node) = self.by_name.get(name) {
            return node;
        }
        self.nodes.push(Node::new(name.clone()));
        self.by_name.insert(name.clone(), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// The node of the tenant's parent, created if needed.
    fn parent_of(&mut self, tenant: &TenantDelta) -> NodeId {
        let parent = tenant.terms.tenant_config.parent.as_ref();
        parent.map_or(TOP, |name| self.node(name))
    }

    /// Moves a node under a parent, and sets its weight. The caller then updates its share.
    fn attach(&mut self, node: NodeId, parent: NodeId, weight: u32) {
        self.nodes[node].weight = Weight::new(weight).unwrap_or(Weight::ONE);
        if self.nodes[node].parent == parent {
            return;
        }
        let waits = self.nodes[node].waits();
        if waits {
            self.leave(node);
        }
        self.nodes[node].parent = parent;
        if waits {
            self.join(node);
        }
    }

    /// Updates a node's share, and its position among its siblings.
    fn update_share(&mut self, node: NodeId) {
        let Node { used, claimed, weight, .. } = &self.nodes[node];
        let share = self.totals.share([used, claimed], *weight);
        if share == self.nodes[node].share {
            return;
        }
        let old = self.take_out(node);
        self.nodes[node].share = share;
        if let Some((_, name, _)) = old {
            let parent = self.nodes[node].parent;
            self.nodes[parent].waiting.insert((share, name, node));
        }
    }

    /// Removes a node's entry from its parent's `waiting`, if there is one.
    fn take_out(&mut self, node: NodeId) -> Option<(Share, Text, NodeId)> {
        let (parent, waits) = (self.nodes[node].parent, self.nodes[node].waits());
        if !waits {
            return None;
        }
        // Mostly, the node has the next turn.
        if self.nodes[parent].waiting.first().is_some_and(|(_, _, first)| *first == node) {
            return self.nodes[parent].waiting.pop_first();
        }
        let (parent, entry) = self.entry(node);
        self.nodes[parent].waiting.take(&entry)
    }

    /// The parent of a node, and the node's entry in the parent's `waiting`.
    fn entry(&self, node: NodeId) -> (NodeId, (Share, Text, NodeId)) {
        let Node { parent, share, name, .. } = &self.nodes[node];
        (*parent, (*share, name.clone(), node))
    }

    /// Adds a node with pending jobs to `waiting` of its parent, and likewise for each ancestor.
    fn join(&mut self, mut node: NodeId) {
        while node != TOP {
            let (parent, entry) = self.entry(node);
            let waited = self.nodes[parent].waits();
            self.nodes[parent].waiting.insert(entry);
            if waited {
                return;
            }
            node = parent;
        }
    }

    /// Removes a node without pending jobs from `waiting` of its parent, and likewise for each ancestor that has no
    /// further pending jobs.
    fn leave(&mut self, mut node: NodeId) {
        while node != TOP {
            let (parent, entry) = self.entry(node);
            self.nodes[parent].waiting.remove(&entry);
            if self.nodes[parent].waits() {
                return;
            }
            node = parent;
        }
    }
}

#[cfg(test)]
mod tests;
