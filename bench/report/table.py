"""Table: the one shape in which numbers reach a page, whether HTML or Markdown."""

from __future__ import annotations

import unicodedata

import msgspec

NBSP = "\u00a0"
SYMBOLS = {"passed": "✓", "failed": "✗", "undecided": "?", "not valid": "⊘"}


class Cell(msgspec.Struct, frozen=True):
    """One cell. `tone` repeats what the text says already, so that colour may echo it."""

    text: str
    tone: str = ""  # passed | failed | undecided | invalid


class Column(msgspec.Struct, frozen=True):
    """One column: its header with the unit, and whether its cells are numbers."""

    header: str
    numeric: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of cells under headers. The first `heads` cells of a row name it; with more than one,
    consecutive rows that share the first form a group (`groups`).

    Without rows, `empty` says why there is nothing to show. `stacked`: on a phone each row
    becomes a block of its own instead of a line that scrolls. `folded`: long detail, closed
    until the reader opens it. `notes` explain the rows; `notes_always`: without rows too.
    """

    id: str
    caption: str
    columns: list[Column]
    rows: list[list[Cell]]
    empty: str
    heads: int = 1
    notes: list[str] = []
    notes_always: bool = False
    stacked: bool = False
    folded: bool = False

    @property
    def groups(self) -> list[tuple[str, list[list[Cell]]]]:
        """Consecutive rows under their common first cell, without that cell."""
        found: list[tuple[str, list[list[Cell]]]] = []
        for cells in self.rows:
            if not found or found[-1][0] != cells[0].text:
                found.append((cells[0].text, []))
            found[-1][1].append(cells[1:])
        return found


def printable(text: str) -> str:
    """The text without control and format characters, which could break XML or turn a line."""
    return "".join(" " if unicodedata.category(char)[0] == "C" else char for char in text)


def texts(*headers: str) -> list[Column]:
    """Columns of text."""
    return [Column(header) for header in headers]


def numbers(*headers: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(header, numeric=True) for header in headers]


def row(*cells: str | Cell) -> list[Cell]:
    """A row from plain strings and ready cells."""
    return [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]


def verdict_cell(verdict: str, valid: bool, detail: str = "") -> Cell:
    """A verdict as symbol and word; not valid overrides it, whatever the numbers say."""
    word = verdict if valid else "not valid"
    text = f"{SYMBOLS.get(word, '·')}{NBSP}{word}"
    tone = "invalid" if not valid else verdict
    return Cell(f"{text}: {detail}" if detail else text, tone)
