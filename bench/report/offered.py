"""Offered: the load of a level, in words and as a place on an axis."""

from __future__ import annotations

from typing import Protocol

from bench.report.table import NBSP


class HasLoad(Protocol):
    """A row that says what load it belongs to."""

    @property
    def users(self) -> int:
        """Planned users; 0 when episodes arrive by themselves."""

    @property
    def rate_per_s(self) -> float | None:
        """Planned mean rate of episodes; None when users make the load."""


class OfLevel(HasLoad, Protocol):
    """A row of one level."""

    @property
    def engine(self) -> str:
        """Label of the engine."""

    @property
    def run(self) -> str:
        """Id of the launch."""

    @property
    def point(self) -> str:
        """Name of the point, e.g. u8, r2.5, u8-r0; empty: not known."""


def load_words(item: HasLoad) -> str:
    """The load of a level: users or a rate, and the point where that does not say which."""
    if item.rate_per_s is None:
        words = f"{item.users}{NBSP}{'user' if item.users == 1 else 'users'}"
        plain = f"u{item.users}"
    else:
        words = f"{item.rate_per_s:.3g}{NBSP}episodes/s"
        plain = f"r{item.rate_per_s:g}"
    point = getattr(item, "point", "")
    return words if point in ("", plain) else f"{words} ({point})"


def offered(item: HasLoad) -> float:
    """Where a level stands on the load axis: its users, or its episodes/s."""
    return float(item.users) if item.rate_per_s is None else item.rate_per_s
