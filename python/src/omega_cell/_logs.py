"""A place in the output of a task, for both clients."""

from __future__ import annotations

from typing import Any

from . import _api
from ._calls import Call, job_ref, make

POLL_S = 0.5
"""Time between two reads of a log that has nothing new."""


class Place:
    """A place in a stream of a task, up to which it was read."""

    def __init__(self, job: str | int, index: int, stream: str, tail_lines: int | None, follow: bool) -> None:
        number = _api.enum_number("LogStream", stream)
        self._fields = {"job": job_ref(job), "index": index, "stream": number, "tail_lines": tail_lines or 0}
        self._from: int | None = 0 if tail_lines is None else None
        self._end: int | None = None
        self._machine: Any = None
        self._follow = follow
        self.is_done = False

    def call(self) -> Call[Any]:
        """Makes the call that reads the next part."""
        return make("Task", "ReadTaskLog", lambda answer: answer, **self._fields, **{"from": self._from})

    def take(self, part: Any) -> bytes:
        """Advances by a part of the log, and returns its bytes: none if there is nothing new."""
        machine = (part.machine.slot, part.machine.incarnation) if part.HasField("machine") else None
        moved = None not in (machine, self._machine) and machine != self._machine
        self._machine = machine or self._machine
        if moved:
            # The log of another machine is read from its beginning.
            self._from, self._end = 0, None
            return b""
        data = bytes(part.data)
        self._from = getattr(part, "from") + len(data)
        self._end = part.end if self._end is None else self._end
        if self._follow:
            self.is_done = not data and not part.running
        else:
            # Output that is written after the first answer is left out.
            self.is_done = not data or self._from >= self._end
        return data
