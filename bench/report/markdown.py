"""Markdown: report.md, the same outline and tables in plain text."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.content import Content
from bench.report.outline import SIGN_OFF, Section, banners, outline
from bench.report.table import Table

LONGEST_FOLDED = 40


def markdown(content: Content) -> str:
    """The whole report as Markdown. Text from outside is escaped, so it cannot become markup."""
    lines = [f"# {escape(content.title)}", "", f"Generated {escape(content.generated)} (UTC)."]
    for banner in banners(content):
        lines += ["", f"> **{banner.title}**: {escape(banner.text)}"]
    for section in outline(content):
        lines += _section(section, 2)
        if section.id == "verdict":
            lines += ["", "### Sign-off", ""]
            lines += [f"- {name}: ______________________________" for name in SIGN_OFF]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Plain text for a Markdown line or cell: no HTML, no column, no line break, no emphasis."""
    text = " ".join(text.split())
    for char in "\\`*_[]|":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _section(section: Section, depth: int) -> Iterator[str]:
    yield from ("", f"{'#' * depth} {escape(section.title)}")
    for text in section.lead:
        yield from ("", escape(text))
    if section.points:
        yield ""
        yield from (f"- {escape(text)}" for text in section.points)
    for table in section.tables:
        yield from _table(table)
    if section.figures:
        yield from ("", "The figures of this section are in report.html.")
    for part in section.parts:
        yield from _section(part, depth + 1)


def _table(table: Table) -> Iterator[str]:
    yield from ("", f"**{escape(table.caption)}**", "")
    if not table.rows:
        yield f"Nothing to show: {escape(table.empty)}."
        if table.notes_always:
            yield from _notes(table)
        return
    if table.folded and len(table.rows) > LONGEST_FOLDED:
        yield f"{len(table.rows)} rows; the table is in report.html."
        return
    yield _line([column.header for column in table.columns])
    yield f"|{'|'.join('---:' if column.numeric else '---' for column in table.columns)}|"
    for cells in table.rows:
        yield _line([cell.text for cell in cells])
    yield from _notes(table)


def _notes(table: Table) -> Iterator[str]:
    for note in table.notes:
        yield from ("", escape(note))


def _line(texts: list[str]) -> str:
    return f"| {' | '.join(escape(text) for text in texts)} |"
