from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import msgspec
import pytest

from bench.report.content import Content
from bench.report.outline import SIGN_OFF, outline
from bench.report.page import page

VOID = {"meta", "link", "br", "hr", "img", "input"}
SECTIONS = ["verdict", "plan", "evidence", "threats", "method"]


class Reader(HTMLParser):
    """Checks that tags nest, and collects what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.tags if name == tag]


@pytest.fixture(scope="module")
def read(rich_page: str) -> Reader:
    return Reader(rich_page)


def test_the_order_is_verdict_plan_evidence_threats_method(read: Reader) -> None:
    found = [str(tag.get("id")) for tag in read.all("section")]
    assert [name for name in found if name in SECTIONS] == SECTIONS
    parts = ["levels-evidence", "latency", "path", "ttft", "tools", "seed-accounting", "quality"]
    assert [name for name in found if name in parts] == parts


def test_ids_are_unique_and_links_resolve(read: Reader) -> None:
    assert len(read.ids) == len(set(read.ids))
    for link in read.all("a"):
        assert str(link["href"]).removeprefix("#") in read.ids
    for _, found in read.tags:
        for name in str(found.get("aria-labelledby") or "").split():
            assert name in read.ids


def test_it_needs_no_script_and_no_network(read: Reader) -> None:
    assert not read.all("script") and not read.all("link") and not read.all("img")
    assert not any("src" in found for _, found in read.tags)
    styles = "".join(read.text)
    assert "@import" not in styles and "http" not in re.sub(r"http://127\S*", "", styles)


def test_headings_go_down_one_level_at_a_time(read: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_tables_are_labelled_for_screen_readers(read: Reader) -> None:
    assert read.all("html")[0]["lang"] == "en"
    assert read.all("th")
    assert all(head.get("scope") in ("col", "row", "rowgroup") for head in read.all("th"))
    assert len(read.all("caption")) == len(read.all("table"))
    regions = [tag for tag in read.all("div") if tag.get("role") == "region"]
    assert len(regions) == len(read.all("table"))
    assert all(tag["tabindex"] == "0" for tag in regions)


def test_every_figure_has_a_title_a_caption_and_its_data(read: Reader) -> None:
    assert len(read.all("figure")) == len(read.all("figcaption")) == 6
    assert len(read.all("svg")) == 17
    assert len([tag for tag in read.all("svg") if tag["role"] == "img"]) == 17
    assert read.text.count("The data behind this figure") == 6


def test_banners_come_before_the_first_number(rich_page: str, small: Content) -> None:
    text = rich_page
    assert text.index("SIMULATED ENGINE") < text.index('id="verdict"')
    assert "INCOMPLETE</strong> <span>Run 20261201T101500Z-tp4: 412 episodes" in text
    whole = page(msgspec.structs.replace(small, simulated=False, runs=small.runs[:1]))
    assert "SIMULATED ENGINE" not in whole
    assert "INCOMPLETE" not in whole


def test_the_sign_off_block_is_blank_and_ends_the_verdict(rich_page: str) -> None:
    text = rich_page
    block = text[text.index('class="signoff"') : text.index('id="plan"')]
    for name in SIGN_OFF:
        assert f"<dt>{name}</dt><dd></dd>" in block


def test_the_seed_reference_says_that_it_proves_the_pipeline(small: Content) -> None:
    content = msgspec.structs.replace(small, seed_reference=True)
    read = Reader(page(content))
    assert "seed-reference" in read.ids
    assert "seed-accounting" not in read.ids
    assert "SEED REFERENCE" in read.text
    assert any("proves that the pipeline" in text for text in read.text)
    assert "accounting" in read.ids


def test_hostile_text_stays_text(hostile_page: str) -> None:
    text = hostile_page
    assert "<script" not in text
    assert "\x07" not in text
    assert "&lt;script&gt;" in text
    read = Reader(text)
    assert not read.all("script")
    assert any("<script>alert('x')</script>" in data for data in read.text)


def test_an_empty_content_still_makes_a_page(empty: Content) -> None:
    text = page(empty)
    read = Reader(text)
    assert [name for name in read.ids if name in SECTIONS] == SECTIONS
    assert "No verdict: no objective was judged" in text
    assert text.count("Nothing to show: ") >= 15
    assert not read.all("svg")


def test_threats_name_what_was_not_checked(rich: Content) -> None:
    threats = next(section for section in outline(rich) if section.id == "threats")
    assert any(point.startswith("Gate not checked: server gap") for point in threats.points)
    assert any("no steady state" in point for point in threats.points)
    assert threats.points[0].startswith("One launch per engine")
