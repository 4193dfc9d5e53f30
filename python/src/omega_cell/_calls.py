"""Calls of the API as values: the method, the request, and a function that reads the answer. Both clients use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import _api
from .model import CellStatus, Job, JobStatus, Machine, MachineStatus, Task, TaskChange
from .units import Amount, Kinds

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A call that may be sent any number of times: every call of the API is idempotent."""

    method: _api.Method
    request: Any
    read: Callable[[Any], T]


def make(service: str, name: str, read: Callable[[Any], T], /, **fields: Any) -> Call[T]:
    """Makes a call of a method with the fields of its request."""
    method = _api.Method(f"{service}Service", name)
    return Call(method, method.request(**fields), read)


def job_ref(job: str | int) -> dict[str, Any]:
    return {"id": job} if isinstance(job, int) else {"name": job}


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list, and the token of the next page; the token is empty after the last page."""

    items: list[T]
    next: str


def describe() -> Call[CellStatus]:
    return make("Cell", "DescribeCell", CellStatus.of_message)


def kinds() -> Call[Kinds]:
    return make("Cell", "DescribeCell", lambda answer: Kinds.of_messages(answer.kinds))


def submit(kinds: Kinds, job: Job) -> Call[int]:
    return make("Job", "SubmitJob", lambda answer: int(answer.id), job=job.to_message(kinds))


def get(kinds: Kinds, job: str | int) -> Call[JobStatus]:
    return make("Job", "GetJob", lambda answer: JobStatus.of_message(answer.job, kinds), job=job_ref(job))


def kill(job: str | int) -> Call[int]:
    return make("Job", "KillJob", lambda answer: int(answer.version), job=job_ref(job))


def delete(job: str | int) -> Call[int]:
    return make("Job", "DeleteJob", lambda answer: int(answer.version), job=job_ref(job))


def update(kinds: Kinds, job: Job, version: int | None) -> Call[int]:
    return make("Job", "UpdateJob", lambda answer: int(answer.version), job=job.to_message(kinds), version=version)


def resize(job: str | int, count: int, group: str) -> Call[int]:
    return make("Job", "ResizeGroup", lambda answer: int(answer.version), job=job_ref(job), group=group, count=count)


def explain(job: str | int) -> Call[list[str]]:
    def read(answer: Any) -> list[str]:
        lines = []
        for group in answer.groups:
            head = f"{group.group}: {group.waiting} pending, {group.feasible} of {group.machines} machines feasible"
            reasons = "; ".join(f"{one.machines} x {one.name}" for one in group.reasons)
            lines.append(f"{head}: {reasons}" if reasons else head)
            lines.extend(f"{group.group}: {remedy.text}" for remedy in group.remedies)
        return lines

    return make("Job", "ExplainJob", read, job=job_ref(job))


def jobs(kinds: Kinds, tenant: str, token: str) -> Call[Page[JobStatus]]:
    def read(answer: Any) -> Page[JobStatus]:
        return Page([JobStatus.of_message(one, kinds) for one in answer.jobs], answer.next_page_token)

    return make("Job", "ListJobs", read, tenant=tenant, page_token=token)


def watch(job: str | int) -> Call[TaskChange]:
    def read(answer: Any) -> TaskChange:
        return TaskChange(answer.version, tuple(Task.of_message(task) for task in answer.tasks), answer.ended)

    return make("Job", "WatchJob", read, job=job_ref(job))


def add_machine(kinds: Kinds, machine: Machine) -> Call[int]:
    return make("Machine", "RegisterMachine", lambda answer: int(answer.id.slot), machine=machine.to_message(kinds))


def drain(machine: str, resume: bool) -> Call[int]:
    return make("Machine", "DrainMachine", lambda answer: int(answer.version), machine={"name": machine}, resume=resume)


def remove_machine(machine: str) -> Call[int]:
    return make("Machine", "RemoveMachine", lambda answer: int(answer.version), machine={"name": machine})


def machines(kinds: Kinds, token: str) -> Call[Page[MachineStatus]]:
    def read(answer: Any) -> Page[MachineStatus]:
        return Page([MachineStatus.of_message(one, kinds) for one in answer.machines], answer.next_page_token)

    return make("Machine", "ListMachines", read, page_token=token)


def tasks(job: str | int, token: str) -> Call[Page[Task]]:
    def read(answer: Any) -> Page[Task]:
        return Page([Task.of_message(one) for one in answer.tasks], answer.next_page_token)

    return make("Task", "ListTasks", read, job=job_ref(job), page_token=token)


def set_quota(kinds: Kinds, tenant: str, limit: dict[str, Amount] | None) -> Call[int]:
    quota = None if limit is None else {"limit": kinds.amounts(limit)}
    return make("Tenant", "SetQuota", lambda answer: int(answer.version), tenant=tenant, quota=quota)
