"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

import grpc

from . import _calls, _logs, errors
from ._calls import Call, Page
from ._logs import Place
from ._replicas import OPTIONS, TRY_S, Replicas, Tls
from .model import CellStatus, Job, JobStatus, Machine, MachineStatus, Task, TaskChange
from .units import Amount, Kinds

T = TypeVar("T")


class Client:
    """A served cell. An unanswered call is repeated at the next replica until `timeout` is over.

    Nothing is done twice: every call of the API may be repeated. Objects of this class may be used by several threads.
    """

    def __init__(self, addresses: str | Sequence[str], *, tls: Tls | None = None, timeout: float = 30.0) -> None:
        self._replicas = Replicas(addresses)
        self._credentials = tls.credentials() if tls else None
        self._timeout = timeout
        self._channels: dict[str, grpc.Channel] = {}
        self._kinds: Kinds | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections."""
        while self._channels:
            self._channels.popitem()[1].close()

    @property
    def kinds(self) -> Kinds:
        """The resource kinds of the cell, which are requested once."""
        if self._kinds is None:
            self._kinds = self.call(_calls.kinds())
        return self._kinds

    def describe(self) -> CellStatus:
        """Returns the resources of the cell, and their claims."""
        return self.call(_calls.describe())

    def submit(self, job: Job) -> int:
        """Submits a job and returns its id. An equal job gets the same id again; another job with this name is rejected."""
        return self.call(_calls.submit(self.kinds, job))

    def job(self, job: str | int) -> JobStatus:
        """Returns a job by name or id."""
        return self.call(_calls.get(self.kinds, job))

    def jobs(self, *, tenant: str = "") -> Iterator[JobStatus]:
        """Iterates over the jobs that have not ended, of all tenants or of one."""
        return self._pages(lambda token: _calls.jobs(self.kinds, tenant, token))

    def resize(self, job: str | int, count: int, *, group: str = "main") -> None:
        """Changes the number of tasks of a group."""
        self.call(_calls.resize(job, count, group))

    def kill(self, job: str | int) -> None:
        """Ends a job and all its tasks."""
        self.call(_calls.kill(job))

    def delete(self, job: str | int) -> None:
        """Ends a job and forgets it, so that its name is free at once."""
        self.call(_calls.delete(job))

    def update(self, job: Job, *, version: int | None = None) -> int:
        """Changes the job of this name to the given description, and returns the number of the new version.

        If `version` is given and the job has another version, the update is rejected.
        """
        return self.call(_calls.update(self.kinds, job, version))

    def explain(self, job: str | int) -> list[str]:
        """Returns lines that say why tasks of a job are pending, and what would help."""
        return self.call(_calls.explain(job))

    def tasks(self, job: str | int) -> Iterator[Task]:
        """Iterates over the tasks of a job."""
        return self._pages(lambda token: _calls.tasks(job, token))

    def watch(self, job: str | int) -> Iterator[TaskChange]:
        """Iterates over the changes of a job's tasks, from the present state until all have ended.

        If the connection breaks, it is made again, possibly to another replica; then all tasks are returned once more.
        """
        attempt, until = 0, 0.0
        while True:
            address = self._replicas.current
            call = _calls.watch(job)
            try:
                for answer in call.method.on(self._channel(address))(call.request):
                    change = call.read(answer)
                    yield change
                    if change.ended:
                        return
                    attempt = 0
            except grpc.RpcError as error:
                if attempt == 0:
                    until = time.monotonic() + self._timeout
                self._wait(errors.of_call(error), address, attempt, until)
            attempt += 1

    def log(
        self,
        job: str | int,
        index: int = 0,
        *,
        stream: Literal["stdout", "stderr"] = "stdout",
        tail_lines: int | None = None,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """Iterates over parts of a task's output: all that its machine keeps, or the last lines.

        With `follow`, the parts go on until the task has ended. A task that never had a machine has no output: the call
        fails.
        """
        place = Place(job, index, stream, tail_lines, follow)
        while not place.is_done:
            data = place.take(self.call(place.call()))
            if data:
                yield data
            elif not place.is_done:
                time.sleep(_logs.POLL_S)

    def add_machine(self, machine: Machine) -> None:
        """Adds a machine, or changes the machine with this name."""
        self.call(_calls.add_machine(self.kinds, machine))

    def machines(self) -> Iterator[MachineStatus]:
        """Iterates over the machines."""
        return self._pages(lambda token: _calls.machines(self.kinds, token))

    def drain(self, machine: str) -> None:
        """Stops placing tasks on a machine. Tasks that are on it stay."""
        self.call(_calls.drain(machine, resume=False))

    def resume(self, machine: str) -> None:
        """Places tasks on a drained machine again."""
        self.call(_calls.drain(machine, resume=True))

    def remove_machine(self, machine: str) -> None:
        """Removes a machine. Its tasks become pending."""
        self.call(_calls.remove_machine(machine))

    def set_quota(self, tenant: str, limit: dict[str, Amount] | None) -> None:
        """Limits the total claims of a tenant's tasks; `None` removes the limit."""
        self.call(_calls.set_quota(self.kinds, tenant, limit))

    def call(self, call: Call[T], *, retried: Callable[[Any], None] | None = None) -> T:
        """Sends a call, with retries until it succeeds, fails permanently, or the timeout is over. `retried` marks a retry."""
        until = time.monotonic() + self._timeout
        attempt = 0
        while True:
            address = self._replicas.current
            left = max(until - time.monotonic(), 0.001)
            try:
                method: Any = call.method.on(self._channel(address))
                return call.read(method(call.request, timeout=min(left, TRY_S)))
            except grpc.RpcError as error:
                self._wait(errors.of_call(error), address, attempt, until)
                if retried:
                    retried(call.request)
            attempt += 1

    def stream(self, method: Any, request: Any) -> tuple[str, Any]:
        """Opens a stream of answers at the current replica; returns its address and the stream."""
        address = self._replicas.current
        return address, method.on(self._channel(address))(request)

    def failed(self, address: str) -> None:
        """Switches to the next replica after a stream from this address broke."""
        self._replicas.next(address)

    def _wait(self, error: errors.OmegaError, address: str, attempt: int, until: float) -> None:
        """Waits before the next try; raises the error if there is no further try."""
        pause = errors.pause_s(error, attempt)
        if pause is None or time.monotonic() + pause > until:
            raise error from None
        if error.code not in ("BUSY", "LIMIT"):
            self._replicas.next(address)
        time.sleep(pause)

    def _channel(self, address: str) -> grpc.Channel:
        channel = self._channels.get(address)
        if channel is None:
            if self._credentials:
                channel = grpc.secure_channel(address, self._credentials, OPTIONS)
            else:
                channel = grpc.insecure_channel(address, OPTIONS)
            self._channels[address] = channel
        return channel

    def _pages(self, page: Callable[[str], Call[Page[T]]]) -> Iterator[T]:
        token = ""
        while True:
            answer = self.call(page(token))
            yield from answer.items
            token = answer.next
            if not token:
                return
