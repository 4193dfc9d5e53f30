"""Jobs, machines, tasks and the cell as data classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _api
from .program import Program
from .rules import Requirement, Toleration
from .units import Amount, Kinds


def _labels(labels: Mapping[str, str]) -> list[Any]:
    return [_api.message("Label")(key=key, value=value) for key, value in sorted(labels.items())]


def _named_labels(labels: Any) -> dict[str, str]:
    return {label.key: label.value for label in labels}


@dataclass
class Group:
    """Equal tasks of a job: `Group(count=3, cpu=0.5, memory="2GiB")`.

    Resource kinds without a field here are in `resources`, by name.
    """

    count: int = 1
    cpu: Amount = 0
    memory: Amount = 0
    gpus: int = 0
    """Whole devices of the machine."""
    resources: Mapping[str, Amount] = field(default_factory=dict)
    name: str = "main"
    labels: Mapping[str, str] = field(default_factory=dict)
    require: tuple[Requirement, ...] = ()
    """Conditions on the machine; all are required."""
    tolerations: tuple[Toleration, ...] = ()
    machine: str = ""
    """The name of the only machine; empty: any."""
    restarts: int = 0
    grace_ms: int = 0
    ports: Mapping[str, int | Literal["any"]] = field(default_factory=dict)
    """TCP ports by name. For `"any"`, the cell chooses a free port of the machine. Only groups with a program keep the
    names of ports with a number; in others, the number becomes the name."""
    program: Program | None = None
    """Without one, the agents' owner decides what a task does."""
    payload: bytes = b""
    """Opaque bytes for agents of one's own."""

    def to_message(self, kinds: Kinds) -> Any:
        """Returns the message of the API."""
        requested = {"cpu": self.cpu, "memory": self.memory, **self.resources}
        if self.gpus:
            requested["gpu"] = self.gpus
        group = _api.message("TaskGroup")(
            name=self.name,
            count=self.count,
            request=kinds.amounts({name: amount for name, amount in requested.items() if amount}),
            labels=_labels(self.labels),
            restarts=self.restarts,
            grace_ms=self.grace_ms,
            payload=self.payload,
        )
        if self.program:
            group.run.CopyFrom(self.program.to_message())
        if self.gpus:
            group.devices.count = self.gpus
            group.devices.milli_each = 1000
        if self.machine:
            group.rules.machine = self.machine
        if self.require:
            group.rules.affinity.required.any.add().labels.extend(one.to_message() for one in self.require)
        for name, port in self.ports.items():
            if port == "any":
                group.any_ports.append(name)
            else:
                group.rules.ports.add(protocol=_api.enum_number("Protocol", "tcp"), number=port)
                if self.program:
                    group.run.ports.add(name=name, number=port)
        group.rules.tolerations.extend(one.to_message() for one in self.tolerations)
        return group

    @classmethod
    def of_message(cls, group: Any, kinds: Kinds) -> Group:
        """Makes a group of the message of the API; rules that this class does not have are left out."""
        named = dict(kinds.named(group.request))
        cpu, memory = named.pop("cpu", 0), named.pop("memory", 0)
        if group.HasField("devices") and group.devices.milli_each == 1000:
            named.pop("gpu", None)
        rules = group.rules
        # Only conditions on labels that are all required have a form here.
        selectors = [one.labels for one in rules.affinity.required.any if not one.names]
        required = selectors[0] if len(selectors) == len(rules.affinity.required.any) == 1 else []
        names = {port.number: port.name for port in group.run.ports}
        tcp = _api.enum_number("Protocol", "tcp")
        fixed = [port.number for port in rules.ports if port.protocol in (0, tcp) and not port.address]
        return cls(
            count=group.count,
            cpu=cpu,
            memory=memory,
            gpus=group.devices.count if group.devices.milli_each == 1000 else 0,
            resources=named,
            name=group.name,
            labels=_named_labels(group.labels),
            require=tuple(Requirement.of_message(one) for one in required),
            tolerations=tuple(Toleration.of_message(one) for one in rules.tolerations),
            machine=rules.machine,
            restarts=group.restarts,
            grace_ms=group.grace_ms,
            ports={**{names.get(port, str(port)): port for port in fixed}, **{name: "any" for name in group.any_ports}},
            program=Program.of_message(group.run) if group.HasField("run") else None,
            payload=group.payload,
        )


@dataclass
class Job:
    """A job: `Job("web", Group(count=3, cpu=0.5), service=True)`, or with a tuple of groups."""

    name: str
    groups: Group | tuple[Group, ...]
    service: bool = False
    tenant: str = "default"
    scheduler: str = "default"
    precedence: int = 0
    gang_min: int | None = None
    runtime_estimate_ms: int | None = None
    deadline_ms: int | None = None

    def to_message(self, kinds: Kinds) -> Any:
        """Returns the message of the API."""
        groups = (self.groups,) if isinstance(self.groups, Group) else self.groups
        return _api.message("Job")(
            name=self.name,
            tenant=self.tenant,
            scheduler=self.scheduler,
            precedence=self.precedence,
            kind=_api.enum_number("JobKind", "service" if self.service else "batch"),
            groups=[group.to_message(kinds) for group in groups],
            gang_min=self.gang_min,
            runtime_estimate_ms=self.runtime_estimate_ms,
            deadline_ms=self.deadline_ms,
        )

    @classmethod
    def of_message(cls, job: Any, kinds: Kinds) -> Job:
        """Makes a job of the message of the API."""

        def optional(name: str) -> int | None:
            return getattr(job, name) if job.HasField(name) else None

        return cls(
            name=job.name,
            groups=tuple(Group.of_message(group, kinds) for group in job.groups),
            service=_api.enum_name("JobKind", job.kind) == "service",
            tenant=job.tenant,
            scheduler=job.scheduler,
            precedence=job.precedence,
            gang_min=optional("gang_min"),
            runtime_estimate_ms=optional("runtime_estimate_ms"),
            deadline_ms=optional("deadline_ms"),
        )


@dataclass(frozen=True)
class JobStatus:
    """A job of the cell, and how many of its tasks are in each phase."""

    id: int
    job: Job
    pending: int
    placed: int
    running: int
    finished: int
    failed: int
    killed: int

    @classmethod
    def of_message(cls, status: Any, kinds: Kinds) -> JobStatus:
        """Makes a status of the message of the API."""
        phases = ("pending", "placed", "running", "finished", "failed", "killed")
        return cls(status.id, Job.of_message(status.job, kinds), *(getattr(status, phase) for phase in phases))


@dataclass
class Machine:
    """A machine: `Machine("m1", cpu=8, memory="64GiB", labels={"rack": "r7"})`."""

    name: str
    cpu: Amount = 0
    memory: Amount = 0
    gpus: int = 0
    resources: Mapping[str, Amount] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_message(self, kinds: Kinds) -> Any:
        """Returns the message of the API."""
        capacity = {"cpu": self.cpu, "memory": self.memory, **self.resources}
        if self.gpus:
            capacity["gpu"] = self.gpus
        capacity = {name: amount for name, amount in capacity.items() if amount}
        return _api.message("Machine")(
            name=self.name, capacity=kinds.amounts(capacity), labels=_labels(self.labels), devices=self.gpus
        )

    @classmethod
    def of_message(cls, machine: Any, kinds: Kinds) -> Machine:
        """Makes a machine of the message of the API."""
        named = dict(kinds.named(machine.capacity))
        cpu, memory = named.pop("cpu", 0), named.pop("memory", 0)
        if machine.devices:
            named.pop("gpu", None)
        return cls(machine.name, cpu, memory, machine.devices, named, _named_labels(machine.labels))


@dataclass(frozen=True)
class MachineStatus:
    """A machine of the cell, and its free resources."""

    machine: Machine
    draining: bool
    free: dict[str, float | int]
    tasks: int

    @classmethod
    def of_message(cls, status: Any, kinds: Kinds) -> MachineStatus:
        """Makes a status of the message of the API."""
        machine = Machine.of_message(status.machine, kinds)
        return cls(machine, status.draining, kinds.named(status.free), status.tasks)


@dataclass(frozen=True)
class Task:
    """A task of a job, and its machine."""

    job_id: int
    index: int
    phase: str
    """`pending`, `placed`, `running`, `finished`, `failed` or `killed`."""
    machine: str
    """The name of its machine; empty if it has none."""
    group: str
    ports: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Its ports that have a name. Empty without a machine."""

    @classmethod
    def of_message(cls, task: Any) -> Task:
        """Makes a task of the message of the API."""
        phase = _api.enum_name("TaskPhase", task.phase)
        ports = {port.name: port.number for port in task.ports}
        return cls(task.task.job, task.task.index, phase, task.machine_name, task.group, ports)


@dataclass(frozen=True)
class TaskChange:
    """Tasks of a job that changed up to a version of the cell. The first value of a watch has all tasks of the job."""

    version: int
    tasks: tuple[Task, ...]
    ended: bool
    """Whether all tasks of the job have ended; then the watch ends, too."""


@dataclass(frozen=True)
class CellStatus:
    """A cell: its resources, and their claims."""

    id: str
    version: int
    machines: int
    jobs: int
    claimable: dict[str, float | int]
    claimed: dict[str, float | int]
    leader: int
    """The replica that leads; 0 if none is known."""

    @classmethod
    def of_message(cls, cell: Any) -> CellStatus:
        """Makes a status of the message of the API."""
        kinds = Kinds.of_messages(cell.kinds)
        claimable, claimed = kinds.named(cell.claimable), kinds.named(cell.claimed)
        return cls(cell.cell, cell.version, cell.machines, cell.jobs, claimable, claimed, cell.members.leader)
