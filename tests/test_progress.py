import pytest

from bench.progress import Display, Progress


def test_plain_lines_say_where_a_run_stands(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display()
    display.show(
        Progress(engine="e", phase="load", users=8, done=12, errors=1, ttft_s_p50=0.15, left_s=61.0)
    )
    display.show(Progress(engine="e", phase="load", users=8, done=13))  # too soon for a new line
    display.show(Progress(engine="e", phase="seal"))
    display.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "e: load, 8 users, 12 done, 1 errors, TTFT p50 150 ms, about 1:01 left in this launch",
        "e: seal",
    ]


def test_markup_in_a_message_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    Display().say("[bold]x[/bold]")
    assert capsys.readouterr().err == "[bold]x[/bold]\n"
