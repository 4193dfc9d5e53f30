//! Tests of the checker of histories: correct histories are damaged in many ways, and the checker must detect each.
//!
//! Each kind of damage is applied at several places of recorded runs, of the simulation or of processes. The undamaged
//! run must pass.

use super::checker::{ClientCall, Fate, History, check_against};
use super::run_with_history;
use super::truth::Done;
use omega_core::{
    Command, Commit, Granularity, Kinds, MachineId, Outcome, Reason, Transaction, Version,
};

/// A recorded run, of which copies are damaged.
#[derive(Clone, Debug)]
pub struct Run {
    /// Answers to clients.
    pub history: History,
    /// The agreed log.
    pub done: Vec<Done>,
    /// The cell's resource kinds.
    pub kinds: Kinds,
}

impl Run {
    /// Records a run of the simulation.
    ///
    /// # Panics
    /// If the run fails.
    #[must_use]
    pub fn record(seed: u64) -> Run {
        let (_, history, truth) = run_with_history(seed).unwrap_or_else(|bad| panic!("{bad}"));
        let kinds = truth.cell().kinds().clone();
        Run { history, done: truth.done, kinds }
    }

    /// Checks the history of the run.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self) -> Result<(), String> {
        check_against(&self.history, &self.done, &self.kinds)
    }

    /// Position of the `n`th command with this property.
    fn find(&self, n: usize, holds: impl Fn(&Run, usize) -> bool) -> Option<usize> {
        (0..self.done.len()).filter(|at| holds(self, *at)).nth(n)
    }

    /// The version of the cell before a command.
    fn before(&self, at: usize) -> Version {
        at.checked_sub(1).map_or(Version(0), |at| self.done[at].version)
    }

    /// Index of the call that got the answer of a command, if the command is a transaction that committed something.
    fn asker(&self, at: usize) -> Option<usize> {
        let Command::Commit(txn) = &self.done[at].command else { return None };
        let same =
            |asked: &ClientCall| matches!(&asked.command, Command::Commit(one) if one.id == txn.id);
        let answered = |asked: &ClientCall| matches!(asked.fate, Fate::Answered(Ok(_)));
        let took = self.done[at].version > self.before(at);
        self.history.calls.iter().position(|asked| took && same(asked) && answered(asked))
    }

    /// The `n`th answered transaction that changed something: its position in the log, and its call. Transactions that
    /// were sent twice are excluded, because without their first copy, the second one has the effect.
    fn taken(&self, n: usize) -> Option<(usize, usize)> {
        let at = self.find(n, |run, at| run.asker(at).is_some() && run.is_there_once(at))?;
        Some((at, self.asker(at)?))
    }

    /// Whether the transaction at this position of the log is at no other position.
    fn is_there_once(&self, at: usize) -> bool {
        let id = |one: &Done| match &one.command {
            Command::Commit(txn) => Some(txn.id),
            _ => None,
        };
        let mine = id(&self.done[at]);
        self.done.iter().filter(|one| id(one) == mine).count() == 1
    }

    /// The `n`th transaction that was rejected and is not in the log.
    fn refused(&mut self, n: usize) -> Option<(&mut Transaction, &mut Commit)> {
        let done = &self.done;
        let agreed = |txn: &Transaction| {
            done.iter()
                .any(|one| matches!(&one.command, Command::Commit(other) if other.id == txn.id))
        };
        let mut refusals = self.history.calls.iter_mut().filter_map(|asked| {
            match (&mut asked.command, &mut asked.fate) {
                (Command::Commit(txn), Fate::Answered(Ok(Outcome::Commit(commit))))
                    if !agreed(txn) =>
                {
                    Some((txn, commit))
                }
                _ => None,
            }
        });
        refusals.nth(n)
    }

    /// The `n`th answered command that registers or submits something: its position in the log, and its call. No other
    /// command has its answer.
    fn unique(&self, n: usize) -> Option<(usize, usize)> {
        let mut pairs = (0..self.done.len()).filter_map(|at| {
            let outcome = &self.done[at].outcome;
            let unique = matches!(outcome, Ok(Outcome::Machine(_) | Outcome::Job(_)));
            let answered = |asked: &ClientCall| {
                unique
                    && asked.command == self.done[at].command
                    && asked.fate == Fate::Answered(outcome.clone())
            };
            Some((at, self.history.calls.iter().position(answered)?))
        });
        pairs.nth(n)
    }

    fn txn(&mut self, at: usize) -> Option<&mut Transaction> {
        match &mut self.done[at].command {
            Command::Commit(txn) => Some(txn),
            _ => None,
        }
    }

    fn told(&mut self, asker: usize) -> Option<&mut Commit> {
        match &mut self.history.calls[asker].fate {
            Fate::Answered(Ok(Outcome::Commit(commit))) => Some(commit),
            _ => None,
        }
    }

    fn last(&self) -> Version {
        self.done.last().map_or(Version(0), |one| one.version)
    }
}

/// Damages the run at the `n`th possible place; `None` if there are fewer places.
type Damage = fn(&mut Run, usize) -> Option<()>;

/// Kinds of damage to the agreed log.
const IN_THE_LOG: &[(&str, Damage)] = &[
    ("an acknowledged transaction is lost", |run, n| {
        let (at, _) = run.taken(n)?;
        run.done.remove(at);
        Some(())
    }),
    ("an acknowledged command is lost", |run, n| {
        let (at, _) = run.unique(n)?;
        run.done.remove(at);
        Some(())
    }),
    ("the end of the log is lost", |run, n| {
        let (at, _) = run.taken(n)?;
        run.done.truncate(at);
        Some(())
    }),
    ("a transaction is taken twice, under another number", |run, n| {
        let (at, _) = run.taken(n)?;
        let mut twice = run.done[at].clone();
        run.done.insert(at + 1, twice.clone());
        if let Command::Commit(txn) = &mut twice.command {
            txn.id.number += 1_000;
        }
        run.done[at + 1] = twice;
        Some(())
    }),
    ("a command is applied twice", |run, n| {
        let (at, _) = run.unique(n)?;
        run.done.insert(at + 1, run.done[at].clone());
        Some(())
    }),
    ("two entries change places", |run, n| {
        let moves = |run: &Run, at: usize| run.done[at].version > run.before(at);
        let at = run.find(n, |run, at| at > 0 && moves(run, at) && moves(run, at - 1))?;
        run.done.swap(at - 1, at);
        Some(())
    }),
    ("an entry has the command of another", |run, n| {
        let (a, _) = run.taken(n)?;
        let (b, _) = run.taken(n + 1)?;
        run.done[a].command = run.done[b].command.clone();
        Some(())
    }),
    ("an entry has another outcome", |run, n| {
        let (at, _) = run.taken(n)?;
        let Ok(Outcome::Commit(commit)) = &mut run.done[at].outcome else { return None };
        commit.version = commit.version.next();
        Some(())
    }),
    ("an entry has another version", |run, n| {
        let (at, _) = run.taken(n)?;
        run.done[at].version = run.done[at].version.next();
        Some(())
    }),
    ("all versions are one higher", |run, n| {
        let (from, _) = run.taken(n)?;
        run.done[from..].iter_mut().for_each(|one| one.version = one.version.next());
        Some(())
    }),
    ("a claim is on another machine", |run, n| {
        let (at, _) = run.taken(n)?;
        let MachineId { slot, .. } = &mut run.txn(at)?.claims.first_mut()?.machine;
        *slot += 1;
        Some(())
    }),
    ("a claim is for another task", |run, n| {
        let (at, _) = run.taken(n)?;
        run.txn(at)?.claims.first_mut()?.task.index += 1;
        Some(())
    }),
    ("a transaction has lost a claim", |run, n| {
        let (at, _) = run.taken(n)?;
        run.txn(at)?.claims.pop().map(|_| ())
    }),
    ("a transaction has another granularity", |run, n| {
        let (at, _) = run.taken(n)?;
        let txn = run.txn(at)?;
        txn.granularity = match txn.granularity {
            Granularity::AllOrNothing => Granularity::Incremental,
            Granularity::Incremental => Granularity::AllOrNothing,
        };
        Some(())
    }),
    ("a transaction has another number", |run, n| {
        let (at, _) = run.taken(n)?;
        run.txn(at)?.id.number += 1_000;
        Some(())
    }),
    ("a transaction is of another scheduler", |run, n| {
        let (at, _) = run.taken(n)?;
        run.txn(at)?.id.scheduler.0 += 100;
        Some(())
    }),
];

/// Kinds of damage to clients' answers.
const IN_WHAT_WAS_TOLD: &[(&str, Damage)] = &[
    ("nobody has asked for a transaction", |run, n| {
        let (_, asker) = run.taken(n)?;
        run.history.calls.remove(asker);
        Some(())
    }),
    ("nobody has asked for a command", |run, n| {
        let (at, _) = run.unique(n)?;
        let command = run.done[at].command.clone();
        run.history.calls.retain(|asked| asked.command != command);
        Some(())
    }),
    ("a client was told another version", |run, n| {
        let (_, asker) = run.taken(n)?;
        let told = run.told(asker)?;
        told.version = told.version.next();
        Some(())
    }),
    ("a client was told an older version", |run, n| {
        let (_, asker) = run.taken(n)?;
        let told = run.told(asker)?;
        told.version = Version(told.version.0 - 1);
        Some(())
    }),
    ("what was taken was told to be refused", |run, n| {
        let (_, asker) = run.taken(n)?;
        let item = omega_core::transaction::Item::Claim(0);
        let conflict = omega_core::Conflict { item, reason: Reason::TaskEnded };
        let told = run.told(asker)?;
        if told.conflicts.is_empty() {
            told.conflicts.push(conflict)
        } else {
            told.conflicts.clear()
        }
        Some(())
    }),
    ("what was done was told to be not done", |run, n| {
        let (_, asker) = run.taken(n)?;
        run.history.calls[asker].fate = Fate::NotDone;
        Some(())
    }),
    ("a command that was done was told to be not done", |run, n| {
        let (at, asker) = run.unique(n)?;
        let command = run.done[at].command.clone();
        let others = run.history.calls.iter().filter(|asked| asked.command == command).count();
        run.history.calls[asker].fate = Fate::NotDone;
        (others == 1).then_some(())
    }),
    ("a transaction was acknowledged out of nothing", |run, n| {
        let (_, asker) = run.taken(n)?;
        let mut made_up = run.history.calls[asker].clone();
        if let Command::Commit(txn) = &mut made_up.command {
            txn.id.number += 1_000;
        }
        run.history.calls.push(made_up);
        Some(())
    }),
    ("a command was acknowledged twice", |run, n| {
        let (_, asker) = run.unique(n)?;
        run.history.calls.push(run.history.calls[asker].clone());
        Some(())
    }),
    ("a transaction was another one when it was asked for", |run, n| {
        let (_, asker) = run.taken(n)?;
        let Command::Commit(txn) = &mut run.history.calls[asker].command else { return None };
        txn.claims.first_mut()?.machine.incarnation += 1;
        Some(())
    }),
    ("a command has the answer to another", |run, n| {
        let (_, a) = run.unique(n)?;
        let (_, b) = run.unique(n + 1)?;
        let fate = run.history.calls[a].fate.clone();
        run.history.calls[a].fate = run.history.calls[b].fate.clone();
        run.history.calls[b].fate = fate;
        (run.history.calls[a].command != run.history.calls[b].command).then_some(())
    }),
    ("two clients got each other's answers", |run, n| {
        let (_, a) = run.taken(n)?;
        let (_, b) = run.taken(n + 1)?;
        let fate = run.history.calls[a].fate.clone();
        run.history.calls[a].fate = run.history.calls[b].fate.clone();
        run.history.calls[b].fate = fate;
        Some(())
    }),
    ("a transaction comes before one that was answered before it was asked for", |run, n| {
        let (_, earlier) = run.taken(n)?;
        let (_, later) = run.taken(n + 1)?;
        let after = run.history.calls[later].completed + 1;
        let asked = &mut run.history.calls[earlier];
        (asked.invoked, asked.completed) = (after, after + 1);
        Some(())
    }),
    ("a refusal has another reason", |run, n| {
        let (_, commit) = run.refused(n)?;
        let reason = &mut commit.conflicts.first_mut()?.reason;
        *reason = match reason {
            Reason::TaskEnded => Reason::MachineGone,
            _ => Reason::TaskEnded,
        };
        Some(())
    }),
    ("a refusal is of a version that never was", |run, n| {
        let last = run.last();
        run.refused(n)?.1.version = Version(last.0 + 1);
        Some(())
    }),
    ("a refusal is of a version before the transaction's base", |run, n| {
        let (txn, commit) = run.refused(n)?;
        commit.version = Version(txn.base.0.checked_sub(1)?);
        Some(())
    }),
    ("what was refused is told to be taken", |run, n| {
        run.refused(n)?.1.conflicts.clear();
        Some(())
    }),
    ("a refusal leaves out a claim", |run, n| run.refused(n)?.1.conflicts.pop().map(|_| ())),
];

/// Kinds of damage to reads.
const IN_WHAT_WAS_READ: &[(&str, Damage)] = &[
    ("a read is stale", |run, n| {
        let mut stale = Vec::new();
        for (i, read) in run.history.reads.iter().enumerate() {
            let seen = (0..run.done.len()).filter_map(|at| {
                let asked = &run.history.calls[run.asker(at)?];
                (asked.completed < read.invoked).then_some(run.done[at].version)
            });
            stale.extend(seen.max().map(|seen| (i, Version(seen.0 - 1))));
        }
        let (i, version) = *stale.get(n)?;
        run.history.reads[i].version = version;
        Some(())
    }),
    ("a read saw nothing at all", |run, n| {
        let (_, asker) = run.taken(0)?;
        let first = run.history.calls[asker].completed;
        let read = run.history.reads.iter_mut().filter(|read| read.invoked > first).nth(n)?;
        read.version = Version(0);
        Some(())
    }),
    ("a read saw a version that never was", |run, n| {
        let last = run.last();
        run.history.reads.get_mut(n)?.version = last.next();
        Some(())
    }),
    ("a read saw what was asked for later", |run, n| {
        let mut later = Vec::new();
        for (i, read) in run.history.reads.iter().enumerate() {
            let future = (0..run.done.len()).find(|at| {
                let asker = run.asker(*at).map(|asker| &run.history.calls[asker]);
                asker.is_some_and(|asked| asked.invoked > read.completed)
            });
            later.extend(future.map(|at| (i, run.done[at].version)));
        }
        let (i, version) = *later.get(n)?;
        run.history.reads[i].version = version;
        Some(())
    }),
];

/// Applies every damage to some places of some runs. Returns the number of damages.
///
/// # Errors
/// A damage that the checker did not detect, or that had no place.
pub fn damage_all(runs: &[Run]) -> Result<usize, String> {
    let mut total = 0;
    for (what, damage) in IN_THE_LOG.iter().chain(IN_WHAT_WAS_TOLD).chain(IN_WHAT_WAS_READ) {
        let before = total;
        for (number, run) in runs.iter().enumerate() {
            // The places are the first few, and some far after them.
            for n in [0, 1, 2, 5, 11, 23] {
                let mut damaged = run.clone();
                if damage(&mut damaged, n).is_none() {
                    continue;
                }
                if damaged.check().is_ok() {
                    return Err(format!("not noticed: {what}, run {number}, place {n}"));
                }
                total += 1;
            }
        }
        if total == before {
            return Err(format!("never tried: {what}"));
        }
    }
    Ok(total)
}
