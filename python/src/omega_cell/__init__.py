"""Client of a served Omega cell.

    from omega_cell import Client, Group, Job

    with Client("127.0.0.1:7600") as cell:
        cell.submit(Job("web", Group(count=3, cpu=0.5, memory="2GiB")))
        for change in cell.watch("web"):
            print(change)

`Client` is synchronous, `AsyncClient` has the same calls for asyncio. `omega_cell.scheduler` has schedulers of your own
(needs NumPy), `omega_cell.results` the reports of `omega run` and `omega sim` as Arrow tables (needs PyArrow).
"""

from ._replicas import Tls
from .aio import AsyncClient
from .client import Client
from .errors import (
    AlreadyExists,
    Denied,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OmegaError,
    OutcomeUnknown,
    Overloaded,
    Unavailable,
)
from .model import CellStatus, Group, Job, JobStatus, Machine, MachineStatus, Task, TaskChange
from .program import HealthCheck, Mount, Program
from .rules import Requirement, Taint, Toleration
from .units import Kinds

__all__ = [
    "AlreadyExists",
    "AsyncClient",
    "CellStatus",
    "Client",
    "Denied",
    "FailedPrecondition",
    "Group",
    "HealthCheck",
    "InvalidArgument",
    "Job",
    "JobStatus",
    "Kinds",
    "Machine",
    "MachineStatus",
    "Mount",
    "NotFound",
    "OmegaError",
    "OutcomeUnknown",
    "Overloaded",
    "Program",
    "Requirement",
    "Taint",
    "Task",
    "TaskChange",
    "Tls",
    "Toleration",
    "Unavailable",
]
