"""The client for asyncio: the calls of `Client`, to be awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

import grpc
import grpc.aio

from . import _calls, _logs, errors
from ._calls import Call, Page
from ._logs import Place
from ._replicas import OPTIONS, TRY_S, Replicas, Tls
from .model import CellStatus, Job, JobStatus, Machine, MachineStatus, Task, TaskChange
from .units import Amount, Kinds

T = TypeVar("T")


class AsyncClient:
    """A served cell. An unanswered call is repeated at the next replica until `timeout` is over.

    Nothing is done twice: every call of the API may be repeated. An object of this class belongs to one event loop.
    """

    def __init__(self, addresses: str | Sequence[str], *, tls: Tls | None = None, timeout: float = 30.0) -> None:
        self._replicas = Replicas(addresses)
        self._credentials = tls.credentials() if tls else None
        self._timeout = timeout
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._kinds: Kinds | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all connections."""
        while self._channels:
            await self._channels.popitem()[1].close()

    async def kinds(self) -> Kinds:
        """Returns the resource kinds of the cell, which are requested once."""
        if self._kinds is None:
            self._kinds = await self.call(_calls.kinds())
        return self._kinds

    async def describe(self) -> CellStatus:
        """Returns the resources of the cell, and their claims."""
        return await self.call(_calls.describe())

    async def submit(self, job: Job) -> int:
        """Submits a job and returns its id. An equal job gets the same id again; another job with this name is rejected."""
        return await self.call(_calls.submit(await self.kinds(), job))

    async def job(self, job: str | int) -> JobStatus:
        """Returns a job by name or id."""
        return await self.call(_calls.get(await self.kinds(), job))

    async def jobs(self, *, tenant: str = "") -> AsyncIterator[JobStatus]:
        """Iterates over the jobs that have not ended, of all tenants or of one."""
        kinds = await self.kinds()
        async for status in self._pages(lambda token: _calls.jobs(kinds, tenant, token)):
            yield status

    async def resize(self, job: str | int, count: int, *, group: str = "main") -> None:
        """Changes the number of tasks of a group."""
        await self.call(_calls.resize(job, count, group))

    async def kill(self, job: str | int) -> None:
        """Ends a job and all its tasks."""
        await self.call(_calls.kill(job))

    async def delete(self, job: str | int) -> None:
        """Ends a job and forgets it, so that its name is free at once."""
        await self.call(_calls.delete(job))

    async def update(self, job: Job, *, version: int | None = None) -> int:
        """Changes the job of this name to the given description, and returns the number of the new version.

        If `version` is given and the job has another version, the update is rejected.
        """
        return await self.call(_calls.update(await self.kinds(), job, version))

    async def explain(self, job: str | int) -> list[str]:
        """Returns lines that say why tasks of a job are pending, and what would help."""
        return await self.call(_calls.explain(job))

    def tasks(self, job: str | int) -> AsyncIterator[Task]:
        """Iterates over the tasks of a job."""
        return self._pages(lambda token: _calls.tasks(job, token))

    async def watch(self, job: str | int) -> AsyncIterator[TaskChange]:
        """Iterates over the changes of a job's tasks, from the present state until all have ended.

        If the connection breaks, it is made again, possibly to another replica; then all tasks are returned once more.
        """
        attempt, until = 0, 0.0
        while True:
            address = self._replicas.current
            call = _calls.watch(job)
            try:
                async for answer in call.method.on(self._channel(address))(call.request):
                    change = call.read(answer)
                    yield change
                    if change.ended:
                        return
                    attempt = 0
            except grpc.RpcError as error:
                if attempt == 0:
                    until = time.monotonic() + self._timeout
                await self._wait(errors.of_call(error), address, attempt, until)
            attempt += 1

    async def log(
        self,
        job: str | int,
        index: int = 0,
        *,
        stream: Literal["stdout", "stderr"] = "stdout",
        tail_lines: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[bytes]:
        """Iterates over parts of a task's output: all that its machine keeps, or the last lines.

        With `follow`, the parts go on until the task has ended. A task that never had a machine has no output: the call
        fails.
        """
        place = Place(job, index, stream, tail_lines, follow)
        while not place.is_done:
            data = place.take(await self.call(place.call()))
            if data:
                yield data
            elif not place.is_done:
                await asyncio.sleep(_logs.POLL_S)

    async def add_machine(self, machine: Machine) -> None:
        """Adds a machine, or changes the machine with this name."""
        await self.call(_calls.add_machine(await self.kinds(), machine))

    async def machines(self) -> AsyncIterator[MachineStatus]:
        """Iterates over the machines."""
        kinds = await self.kinds()
        async for status in self._pages(lambda token: _calls.machines(kinds, token)):
            yield status

    async def drain(self, machine: str) -> None:
        """Stops placing tasks on a machine. Tasks that are on it stay."""
        await self.call(_calls.drain(machine, resume=False))

    async def resume(self, machine: str) -> None:
        """Places tasks on a drained machine again."""
        await self.call(_calls.drain(machine, resume=True))

    async def remove_machine(self, machine: str) -> None:
        """Removes a machine. Its tasks become pending."""
        await self.call(_calls.remove_machine(machine))

    async def set_quota(self, tenant: str, limit: dict[str, Amount] | None) -> None:
        """Limits the total claims of a tenant's tasks; `None` removes the limit."""
        await self.call(_calls.set_quota(await self.kinds(), tenant, limit))

    async def call(self, call: Call[T]) -> T:
        """Sends a call, with retries until it succeeds, fails permanently, or the timeout is over."""
        until = time.monotonic() + self._timeout
        attempt = 0
        while True:
            address = self._replicas.current
            left = max(until - time.monotonic(), 0.001)
            try:
                method: Any = call.method.on(self._channel(address))
                return call.read(await method(call.request, timeout=min(left, TRY_S)))
            except grpc.RpcError as error:
                await self._wait(errors.of_call(error), address, attempt, until)
            attempt += 1

    async def _wait(self, error: errors.OmegaError, address: str, attempt: int, until: float) -> None:
        """Waits before the next try; raises the error if there is no further try."""
        pause = errors.pause_s(error, attempt)
        if pause is None or time.monotonic() + pause > until:
            raise error from None
        if error.code not in ("BUSY", "LIMIT"):
            self._replicas.next(address)
        await asyncio.sleep(pause)

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            if self._credentials:
                channel = grpc.aio.secure_channel(address, self._credentials, OPTIONS)
            else:
                channel = grpc.aio.insecure_channel(address, OPTIONS)
            self._channels[address] = channel
        return channel

    async def _pages(self, page: Callable[[str], Call[Page[T]]]) -> AsyncIterator[T]:
        token = ""
        while True:
            answer = await self.call(page(token))
            for item in answer.items:
                yield item
            token = answer.next
            if not token:
                return
