"""Rules about the machines of tasks: labels that a machine must have, and taints that a task tolerates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _api


@dataclass(frozen=True)
class Requirement:
    """A condition on one label of a machine, as in Kubernetes: `Requirement("zone", "in", ("a", "b"))`."""

    key: str
    operator: str = "exists"
    """`in`, `not_in`, `exists`, `does_not_exist`, `gt` or `lt`."""
    values: tuple[str, ...] = ()

    def to_message(self) -> Any:
        """Returns the message of the API."""
        operator = _api.enum_number("Operator", self.operator)
        return _api.message("Requirement")(key=self.key, operator=operator, values=self.values)


@dataclass(frozen=True)
class Toleration:
    """A taint that a task tolerates. Without a value, it matches any value; without an effect, every effect."""

    key: str
    value: str | None = None
    effect: str | None = None
    """`no_schedule`, `prefer_no_schedule` or `no_execute`."""

    def to_message(self) -> Any:
        """Returns the message of the API."""
        operator = _api.enum_number("TolerationOperator", "exists" if self.value is None else "equal")
        effect = _api.enum_number("TaintEffect", self.effect) if self.effect else 0
        return _api.message("Toleration")(key=self.key, operator=operator, value=self.value or "", effect=effect)
