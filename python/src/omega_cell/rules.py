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

    @classmethod
    def of_message(cls, requirement: Any) -> Requirement:
        """Makes a requirement of the message of the API."""
        operator = _api.enum_name("Operator", requirement.operator) if requirement.operator else "in"
        return cls(requirement.key, operator, tuple(requirement.values))


@dataclass(frozen=True)
class Toleration:
    """A taint that a task tolerates. Without a key, it matches every taint; without a value, any value; without an
    effect, every effect."""

    key: str | None
    value: str | None = None
    effect: str | None = None
    """`no_schedule`, `prefer_no_schedule` or `no_execute`."""

    def to_message(self) -> Any:
        """Returns the message of the API."""
        operator = _api.enum_number("TolerationOperator", "exists" if self.value is None else "equal")
        effect = _api.enum_number("TaintEffect", self.effect) if self.effect else 0
        return _api.message("Toleration")(key=self.key, operator=operator, value=self.value or "", effect=effect)

    @classmethod
    def of_message(cls, toleration: Any) -> Toleration:
        """Makes a toleration of the message of the API."""
        key = toleration.key if toleration.HasField("key") else None
        is_any = _api.enum_name("TolerationOperator", toleration.operator) == "exists"
        effect = _api.enum_name("TaintEffect", toleration.effect) if toleration.effect else None
        return cls(key, None if is_any else toleration.value, effect)


@dataclass(frozen=True)
class Taint:
    """A taint of a machine, which keeps away tasks that do not tolerate it."""

    key: str
    value: str
    effect: str
    """`no_schedule`, `prefer_no_schedule` or `no_execute`."""

    @classmethod
    def of_message(cls, taint: Any) -> Taint:
        """Makes a taint of the message of the API."""
        return cls(taint.key, taint.value, _api.enum_name("TaintEffect", taint.effect))
