"""Amounts as people write them, and as the API counts them.

The API has a list of integers in the order of the cell's resource kinds, each in its smallest unit. Here an amount is a
number or a text: `cpu=0.5`, `memory="2GiB"`, `cpu="500m"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Union

from . import _api

Amount = Union[int, float, str]

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}
_WRITTEN = re.compile(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True)
class Kind:
    """A resource kind of a cell."""

    name: str
    unit: str
    """`milli` (thousandths), `bytes` or `count`."""

    def parse(self, amount: Amount) -> int:
        """Returns an amount in the kind's smallest unit. An amount that is not a whole number of them is an error."""
        value = self._value(amount) * (1000 if self.unit == "milli" else 1)
        if value < 0 or value != value.to_integral_value():
            step = "0.001" if self.unit == "milli" else "1"
            raise ValueError(f"{self.name}: {amount!r} must be a multiple of {step}, and at least 0")
        return int(value)

    def _value(self, amount: Amount) -> Decimal:
        if isinstance(amount, bool):
            raise ValueError(f"{self.name}: {amount!r} is not an amount: give a number, or a text such as '2GiB'")
        if isinstance(amount, (int, float)):
            return Decimal(str(amount))
        found = _WRITTEN.fullmatch(amount)
        suffix = found and found[2]
        if suffix is not None and self.unit == "bytes":
            suffix = suffix.removesuffix("B")
        if not found or suffix not in _SUFFIXES:
            raise ValueError(f"{self.name}: {amount!r} is not an amount: give a number, or a text such as '2GiB' or '500m'")
        try:
            return Decimal(found[1]) * _SUFFIXES[suffix]
        except InvalidOperation:
            raise ValueError(f"{self.name}: {found[1]!r} is not a number") from None

    def number(self, units: int) -> float | int:
        """Returns an amount of smallest units as a number: cores for `cpu`, bytes for `memory`."""
        if self.unit != "milli":
            return units
        return units // 1000 if units % 1000 == 0 else units / 1000


class Kinds:
    """The resource kinds of a cell, in the order in which the API lists amounts."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = tuple(kinds)
        self._at = {kind.name: at for at, kind in enumerate(self._kinds)}

    @classmethod
    def of_messages(cls, kinds: Iterable[Any]) -> Kinds:
        """Makes kinds of `ResourceKind` messages."""
        return cls(Kind(kind.name, _api.enum_name("Unit", kind.unit)) for kind in kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(kind.name for kind in self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def index(self, name: str) -> int:
        """Returns the position of a kind."""
        if name not in self._at:
            raise ValueError(f"{name!r} is not a resource kind of this cell; its kinds are {', '.join(self.names)}")
        return self._at[name]

    def amounts(self, named: Mapping[str, Amount]) -> list[int]:
        """Returns amounts by name as a list of integers of the API."""
        amounts = [0] * len(self._kinds)
        for name, amount in named.items():
            at = self.index(name)
            amounts[at] = self._kinds[at].parse(amount)
        while amounts and amounts[-1] == 0:
            amounts.pop()
        return amounts

    def named(self, amounts: Iterable[int]) -> dict[str, float | int]:
        """Returns a list of the API as amounts by name; kinds with an amount of 0 are left out."""
        return {kind.name: kind.number(units) for kind, units in zip(self._kinds, amounts) if units}
