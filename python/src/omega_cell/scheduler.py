"""Schedulers of your own: a private copy of the cell as NumPy columns, and transactions of claims.

    with Client("127.0.0.1:7600") as client, Scheduler(client, "mine") as scheduler:
        scheduler.sync()
        tasks = scheduler.pending()
        rows = choose(scheduler.view, tasks)      # yours: a row of the view for each task, -1 for none
        result = scheduler.commit(tasks, rows)

The cell checks every claim. A claim for resources that another scheduler got first conflicts, and its task stays
pending. The cell also checks the jobs' rules about labels, taints and other tasks. `View.jobs` has those about labels
and taints, and `View.labels` and `View.taints` those of the machines, for schedulers that consider them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from . import _api, _calls
from ._deltas import Deltas
from .client import Client
from .errors import Unavailable
from .model import Job
from .rules import Taint
from .units import Kinds

Ints = npt.NDArray[np.int64]
Rows = Union[Ints, list[int]]

ITEMS_MAX = 10_000
"""Maximum number of claims in one transaction; more are sent as several transactions."""

_PENDING = 1


@dataclass
class Tasks:
    """Pending tasks as columns of one length."""

    job: Ints
    index: Ints
    group: Ints
    request: Ints
    """A row for each task, a column for each kind, in the kind's smallest unit."""

    def __len__(self) -> int:
        return len(self.job)

    def take(self, which: npt.NDArray[Any]) -> Tasks:
        """Returns some of the tasks, by positions or by a mask."""
        return Tasks(self.job[which], self.index[which], self.group[which], self.request[which])


@dataclass
class Conflict:
    """A claim that was rejected: its position among the tasks of the commit, and the reason."""

    at: int
    reason: str
    """Such as `no_room`: the names of the API's `Reason`."""


@dataclass
class Result:
    """The answer to a commit."""

    placed: int
    conflicts: list[Conflict]
    version: int


class View:
    """A copy of the cell. Columns are indexed by a machine's row; rows without a machine have `present` false.

    `free` is the free amounts at the last sync, minus the claims since. Kinds are columns in the order of `kinds.names`, amounts in the
    kind's smallest unit.
    """

    def __init__(self) -> None:
        self.version = 0
        self.kinds = Kinds(())
        self.jobs: dict[int, Job] = {}
        self.names: list[str] = []
        self.labels: list[dict[str, str]] = []
        self.taints: list[tuple[Taint, ...]] = []
        self._resize(0)

    def _resize(self, rows: int) -> None:
        kinds = len(self.kinds)
        old: int = len(self.names)

        def grown(name: str, dtype: Any, *shape: int) -> npt.NDArray[Any]:
            column = np.zeros((rows, *shape), dtype)
            if old and hasattr(self, name):
                column[:old] = getattr(self, name)
            return column

        self.free: Ints = grown("free", np.int64, kinds)
        self.capacity: Ints = grown("capacity", np.int64, kinds)
        self.sequence: npt.NDArray[np.uint64] = grown("sequence", np.uint64)
        self.incarnation: npt.NDArray[np.uint32] = grown("incarnation", np.uint32)
        self.present: npt.NDArray[np.bool_] = grown("present", np.bool_)
        self.draining: npt.NDArray[np.bool_] = grown("draining", np.bool_)
        self.names.extend([""] * (rows - old))
        self.labels.extend({} for _ in range(rows - old))
        self.taints.extend(() for _ in range(rows - old))

    def apply(self, delta: Any) -> None:
        """Applies the machines of a delta."""
        if delta.full:
            self.names, self.labels, self.taints, self.jobs = [], [], [], {}
            self.kinds = Kinds.of_messages(delta.kinds)
            self._resize(delta.rows)
        elif delta.rows > len(self.names):
            self._resize(delta.rows)
        for change in delta.machines:
            self._machine(change)
        if delta.slots:
            rows = np.array(delta.slots, np.int64)
            self.free[rows] = np.array(delta.free, np.int64).reshape(len(rows), -1)
            self.sequence[rows] = np.array(delta.sequences, np.uint64)
        self.version = delta.to

    def _machine(self, change: Any) -> None:
        row = change.slot
        self.incarnation[row] = change.incarnation
        self.draining[row] = change.draining
        self.present[row] = change.HasField("machine")
        self.capacity[row] = 0
        if self.present[row]:
            amounts = change.machine.capacity
            self.capacity[row, : len(amounts)] = amounts
        self.names[row] = change.machine.name
        self.labels[row] = {label.key: label.value for label in change.machine.labels}
        self.taints[row] = tuple(Taint.of_message(taint) for taint in change.machine.taints)

    def rows(self) -> Ints:
        """Returns the rows of the machines that accept tasks."""
        return np.flatnonzero(self.present & ~self.draining)


class Scheduler:
    """A scheduler of a served cell. It places the jobs whose `scheduler` is its name.

    Only one process may use the name at a time. The name is not leased: with two processes, commits fail with `ID_REUSED`.
    """

    def __init__(self, client: Client, name: str = "default") -> None:
        self.view = View()
        self.name = name
        self._client = client
        answer = client.call(_calls.make("Scheduling", "Register", lambda answer: answer, name=name))
        self._id, self._number = answer.scheduler, answer.next_transaction
        self._pending: dict[tuple[int, int], int] = {}
        self._requests: dict[int, list[Ints]] = {}
        self._deltas = Deltas(client, {"jobs_of": {"scheduler": name}})
        self._wanted = 0

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream of deltas."""
        self._deltas.close()

    def sync(self, timeout: float = 30.0) -> View:
        """Updates the view with all received deltas, at least up to the results of past commits."""
        until = time.monotonic() + timeout
        while self.view.version < self._wanted or self.view.version == 0:
            delta = self._deltas.next(max(until - time.monotonic(), 0.0))
            if delta is None:
                at = f"the view is at version {self.view.version} of {self._wanted}"
                raise Unavailable("LATE", f"no delta within {timeout} s; {at}: check that the cell has a leader")
            self._apply(delta)
        for delta in self._deltas.waiting():
            self._apply(delta)
        return self.view

    def wait(self, timeout: float) -> bool:
        """Waits for a change of the cell, and applies it; returns whether there was one."""
        delta = self._deltas.next(timeout)
        if delta is not None:
            self._apply(delta)
        return delta is not None

    def pending(self) -> Tasks:
        """Returns the pending tasks of the scheduler's jobs, older jobs first."""
        order = sorted(self._pending)
        groups = [self._pending[task] for task in order]
        table = np.array(order, np.int64).reshape(len(order), 2)
        requests = [self._requests[job][group] for (job, _), group in zip(order, groups)]
        request = np.array(requests, np.int64).reshape(len(order), len(self.view.kinds))
        return Tasks(table[:, 0], table[:, 1], np.array(groups, np.int64), request)

    def commit(self, tasks: Tasks, rows: Rows, *, all_or_nothing: bool = False) -> Result:
        """Claims a machine for each task: `rows` has its row in the view, or -1 to leave the task pending.

        A transaction without an answer is sent again under the same number, so nothing is placed twice.
        """
        chosen = np.asarray(rows, np.int64)
        if len(chosen) != len(tasks):
            raise ValueError(f"rows: has {len(chosen)} entries, but there are {len(tasks)} tasks: give one row for each task, -1 for none")
        claimed = np.flatnonzero(chosen >= 0)
        result = Result(0, [], self.view.version)
        for begin in range(0, len(claimed), ITEMS_MAX):
            part = claimed[begin : begin + ITEMS_MAX]
            answer = self._send(tasks.take(part), chosen[part], all_or_nothing)
            np.subtract.at(self.view.free, chosen[part], tasks.request[part])
            rejected = [(int(part[one.claim]), one) for one in answer.conflicts]
            back = np.array([at for at, _ in rejected], np.int64)
            np.add.at(self.view.free, chosen[back], tasks.request[back])
            result.conflicts += [Conflict(at, _api.enum_name("Reason", one.reason)) for at, one in rejected]
            result.placed += len(part) - len(rejected)
            result.version = max(result.version, answer.version)
            lost = set(back.tolist())
            for at in part.tolist():
                if at not in lost:
                    self._pending.pop((int(tasks.job[at]), int(tasks.index[at])), None)
        self._wanted = max(self._wanted, result.version)
        return result

    def _send(self, tasks: Tasks, rows: Ints, all_or_nothing: bool) -> Any:
        granularity = "all_or_nothing" if all_or_nothing else "incremental"
        call = _calls.make(
            "Scheduling",
            "Commit",
            lambda answer: answer,
            scheduler=self._id,
            number=self._number,
            base=self.view.version,
            granularity=_api.enum_number("Granularity", granularity),
            claim_jobs=tasks.job.tolist(),
            claim_indices=tasks.index.tolist(),
            claim_slots=rows.tolist(),
            claim_incarnations=self.view.incarnation[rows].tolist(),
            claim_seen=self.view.sequence[rows].tolist(),
        )
        self._number += 1
        return self._client.call(call, retried=_mark_retry)

    def _apply(self, delta: Any) -> None:
        self.view.apply(delta)
        if delta.full:
            self._pending.clear()
            self._requests.clear()
        for change in delta.jobs:
            if change.HasField("job"):
                self._job(change.id, change.job)
            else:
                self._forget(change.id)
        columns = (delta.task_jobs, delta.task_indices, delta.task_groups, delta.task_phases)
        for job, index, group, phase in zip(*columns):
            if phase == _PENDING and job in self._requests:
                self._pending[job, index] = group
            else:
                self._pending.pop((job, index), None)

    def _job(self, job: int, message: Any) -> None:
        known = job in self._requests
        self.view.jobs[job] = Job.of_message(message, self.view.kinds)
        requests = []
        for group in message.groups:
            request = np.zeros(len(self.view.kinds), np.int64)
            request[: len(group.request)] = group.request
            requests.append(request)
        self._requests[job] = requests
        if not known:
            # Tasks of a new job are numbered group by group. All are pending, except those in the columns of tasks.
            groups = [at for at, group in enumerate(message.groups) for _ in range(group.count)]
            self._pending.update({(job, index): group for index, group in enumerate(groups)})

    def _forget(self, job: int) -> None:
        self._requests.pop(job, None)
        gone = self.view.jobs.pop(job, None)
        if gone is not None:
            for task in [task for task in self._pending if task[0] == job]:
                del self._pending[task]


def _mark_retry(request: Any) -> None:
    """Marks a transaction as sent before, so that the leader does not reject it in its pre-check."""
    request.retry = True


__all__ = ["ITEMS_MAX", "Conflict", "Result", "Scheduler", "Tasks", "View"]
