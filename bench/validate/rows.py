"""Row: one published number beside its prediction. `rows` is all of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of one row of a published table.

    kind: what the published number is: measured, or predicted by another model. error: relative,
    (predicted - published) / published. gate: the largest error allowed; None: shown, not gated.
    note: why it is not gated, or what remains.
    """

    table: str
    row: str
    quantity: str
    unit: str
    kind: str
    published: float
    predicted: float
    gate: float | None = None
    note: str = ""

    @property
    def error(self) -> float:
        """Relative error of the prediction, a share."""
        return self.predicted / self.published - 1

    @property
    def missed(self) -> bool:
        """A gate that is not met."""
        return self.gate is not None and abs(self.error) > self.gate


def rows() -> list[Row]:
    """Every comparison; takes seconds."""
    from bench.validate import nim, tables

    return [*nim.rows(), *tables.rows()]


def counted(users: int) -> str:
    """1 user, 2 users."""
    return f"{users} user{'s' * (users != 1)}"


def misses(found: Iterable[Row]) -> list[Row]:
    """The rows that miss their gate."""
    return [row for row in found if row.missed]
