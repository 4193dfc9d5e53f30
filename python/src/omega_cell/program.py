"""Programs of task groups, with their health checks and restarts, as data classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _api


def _words(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the words; rejects one text, of which each letter would become a word."""
    if isinstance(words, str):
        raise ValueError(f"{name} must be a tuple of words: ({words!r},) instead of {words!r}")
    return words


@dataclass(frozen=True)
class Mount:
    """A file or folder of the machine that a container has. Both paths are absolute."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class HealthCheck:
    """A check of a running program, which fails after `failures` failed tests in a row.

    Exactly one of `command`, `tcp` and `http` is given. A port is a number, or a name of the group's ports:
    `HealthCheck(http="web", path="/ready")`.
    """

    command: tuple[str, ...] = ()
    """A command that succeeds if it exits with 0."""
    tcp: int | str | None = None
    """A port that accepts connections."""
    http: int | str | None = None
    """A port that answers a request for `path` with a status from 200 to 399."""
    path: str = "/"
    interval_s: float = 10.0
    timeout_s: float = 1.0
    failures: int = 3
    start_period_s: float = 0.0
    """Time from the start in which failures do not count."""

    def to_message(self) -> Any:
        """Returns the message of the API."""
        if (bool(self.command), self.tcp is not None, self.http is not None).count(True) != 1:
            raise ValueError("a health check needs exactly one of command, tcp and http")
        check = _api.message("HealthCheck")(
            interval_ms=round(1000 * self.interval_s),
            timeout_ms=round(1000 * self.timeout_s),
            failures=self.failures,
            start_period_ms=round(1000 * self.start_period_s),
        )
        if self.command:
            check.command.words.extend(_words("command", self.command))
        elif isinstance(self.tcp, str):
            check.tcp_port_name = self.tcp
        elif self.tcp is not None:
            check.tcp_port = self.tcp
        elif isinstance(self.http, str):
            check.http.port_name, check.http.path = self.http, self.path
        elif self.http is not None:
            check.http.port, check.http.path = self.http, self.path
        return check

    @classmethod
    def of_message(cls, check: Any) -> HealthCheck:
        """Makes a check of the message of the API."""
        probe = check.WhichOneof("probe")
        http = probe == "http"
        return cls(
            command=tuple(check.command.words) if probe == "command" else (),
            tcp={"tcp_port": check.tcp_port, "tcp_port_name": check.tcp_port_name}.get(probe),
            http=(check.http.port_name or check.http.port) if http else None,
            path=check.http.path if http else "/",
            interval_s=check.interval_ms / 1000,
            timeout_s=check.timeout_ms / 1000,
            failures=check.failures,
            start_period_s=check.start_period_ms / 1000,
        )


@dataclass(frozen=True)
class Program:
    """The program of each task of a group: `Program("/usr/bin/convert", ("a.png", "b.png"))`.

    It is started without a shell. A name without a path is looked up in `PATH`.
    """

    command: str = ""
    """With an image, empty means the image's entry point."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Names that begin with `OMEGA_` are reserved."""
    working_dir: str = ""
    """An absolute path; empty: a new directory, or the one that the image names."""
    user: str = ""
    """Empty: the agent's user, or the one that the image names."""
    image: str = ""
    """A container image; empty: the program runs on the machine itself."""
    mounts: tuple[Mount, ...] = ()
    attempts: int = 0
    """Restarts in a row of a failed program on the same machine."""
    delay_s: float = 1.0
    """Delay before the first restart, doubled for each further restart."""
    health: HealthCheck | None = None

    def to_message(self) -> Any:
        """Returns the message of the API, without the names of ports."""
        run = _api.message("Run")(
            command=self.command,
            args=_words("args", self.args),
            env=[{"name": name, "value": value} for name, value in sorted(self.env.items())],
            working_dir=self.working_dir,
            user=self.user,
            image=self.image,
            mounts=[vars(mount) for mount in self.mounts],
        )
        if self.attempts:
            run.restart.attempts, run.restart.delay_ms = self.attempts, round(1000 * self.delay_s)
        if self.health:
            run.health.CopyFrom(self.health.to_message())
        return run

    @classmethod
    def of_message(cls, run: Any) -> Program:
        """Makes a program of the message of the API."""
        return cls(
            command=run.command,
            args=tuple(run.args),
            env={variable.name: variable.value for variable in run.env},
            working_dir=run.working_dir,
            user=run.user,
            image=run.image,
            mounts=tuple(Mount(mount.source, mount.target, mount.read_only) for mount in run.mounts),
            attempts=run.restart.attempts,
            delay_s=run.restart.delay_ms / 1000 if run.restart.attempts else 1.0,
            health=HealthCheck.of_message(run.health) if run.HasField("health") else None,
        )
