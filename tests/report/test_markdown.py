from __future__ import annotations

import re

from bench.report.content import Content
from bench.report.markdown import escape, markdown
from bench.report.outline import SIGN_OFF


def test_it_has_the_same_order_and_the_sign_off(rich: Content) -> None:
    text = markdown(rich)
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads == ["Verdict", "Sizing plan", "Evidence", "Threats to validity", "How it was made"]
    assert "> **SIMULATED ENGINE**" in text
    assert "> **INCOMPLETE**" in text
    for name in SIGN_OFF:
        assert f"- {name}: ___" in text


def test_every_table_row_has_as_many_cells_as_its_head(hostile: Content) -> None:
    width = 0
    rows = 0
    for line in markdown(hostile).splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        rows += 1
        assert cells == width
    assert rows > 100


def test_hostile_text_is_escaped(hostile: Content) -> None:
    text = markdown(hostile)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert escape("a|b\n*c* <d> & `e`") == r"a\|b \*c\* &lt;d&gt; &amp; \`e\`"


def test_an_empty_content_says_that_there_is_nothing(empty: Content) -> None:
    assert markdown(empty).count("Nothing to show: ") >= 10
