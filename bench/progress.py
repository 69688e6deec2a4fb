"""Progress: what a person sees while a run lasts. One line that renews itself, or plain lines."""

from __future__ import annotations

import time

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

PLAIN_EVERY_S = 5.0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands. `left_s` counts to the end of this launch; None: not known yet."""

    engine: str
    phase: str  # start | grid | load | seal
    point: str = ""
    users: int = 0
    done: int = 0
    errors: int = 0
    ttft_s_p50: float | None = None
    left_s: float | None = None


class Display:
    """Shows Progress on standard error: live in a terminal, else a line each few seconds."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._phase: tuple[str, str, str] | None = None
        self._printed_s = 0.0

    def show(self, progress: Progress) -> None:
        """Bring the display up to date. Cheap: at most four updates a second are drawn."""
        line = _line(progress)
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, refresh_per_second=4, transient=True)
                self._live.start()
            self._live.update(Text(line))
            return
        phase = (progress.engine, progress.phase, progress.point)
        if phase != self._phase or time.monotonic() - self._printed_s >= PLAIN_EVERY_S:
            self._phase, self._printed_s = phase, time.monotonic()
            self._console.print(line, soft_wrap=True)

    def say(self, message: str) -> None:
        """One lasting line."""
        self._console.print(message, soft_wrap=True, markup=False)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _line(progress: Progress) -> str:
    parts = [f"{progress.engine}: {progress.phase}"]
    if progress.users:
        parts.append(f"{progress.users} users")
    elif progress.point:
        parts.append(progress.point)
    if progress.phase in ("grid", "load"):
        parts.append(f"{progress.done} done")
        parts.append(f"{progress.errors} errors")
    if progress.ttft_s_p50 is not None:
        parts.append(f"TTFT p50 {progress.ttft_s_p50 * 1e3:.0f} ms")
    if progress.left_s is not None:
        minutes, seconds = divmod(round(max(progress.left_s, 0.0)), 60)
        parts.append(f"about {minutes}:{seconds:02d} left in this launch")
    return ", ".join(parts)
