"""The bar on a terminal, in a time of the test's own."""

from __future__ import annotations

import io

import pytest

from labkit.cli.progress import Progress
from labkit.timing import VirtualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_for_what_is_quick() -> None:
    """What takes less than a third of a second draws nothing, and so has nothing to erase."""
    clock, terminal = VirtualClock(), Terminal()
    with Progress("sweep", stream=terminal, clock=clock) as progress:
        for done in range(10):
            progress(done, 10)
            clock.advance(0.029)
    assert terminal.getvalue() == ""


def test_the_bar_says_how_far_and_how_long_and_is_erased() -> None:
    """A bar shows what is done, of how much, and the time left, after a while; at the end the line is empty."""
    clock, terminal = VirtualClock(), Terminal()
    with Progress("sweep", stream=terminal, clock=clock) as progress:
        progress(0, 1200)
        clock.advance(2.0)
        progress(300, 1200)
        progress(301, 1200)  # too soon for another drawing
        clock.advance(118.0)
        progress(600, 1200)
    assert terminal.getvalue().split("\r")[1:] == [
        "sweep  [#######                       ]  300/1,200, 6 s left\033[K",
        "sweep  [###############               ]  600/1,200, 2 min 0 s left\033[K",
        "\033[K",
    ]


def test_the_time_left_is_reckoned_from_what_this_run_has_done() -> None:
    """A sweep that goes on where another stopped does not take the earlier runs for its own."""
    clock, terminal = VirtualClock(), Terminal()
    with Progress("sweep", stream=terminal, clock=clock) as progress:
        progress(900, 1000)
        clock.advance(10.0)
        progress(910, 1000)
    assert "910/1,000, 1 min 30 s left" in terminal.getvalue()  # ten runs in ten seconds, ninety to go


@pytest.mark.parametrize(("share", "shown"), [(0.25, "25%"), (1.0, "100%")])
def test_a_share_is_shown_where_nothing_is_counted(share: float, shown: str) -> None:
    """A single run shows its share."""
    clock, terminal = VirtualClock(), Terminal()
    with Progress("decision", counts=False, stream=terminal, clock=clock) as progress:
        clock.advance(1.5)
        progress(share)
    assert f"]  {shown}" in terminal.getvalue()


def test_it_is_erased_on_ctrl_c() -> None:
    """An interruption leaves an empty line, not half a bar."""
    clock, terminal = VirtualClock(), Terminal()

    def work() -> None:
        with Progress("sweep", stream=terminal, clock=clock) as progress:
            clock.advance(2.0)
            progress(1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert terminal.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize("columns", ["1", "20", "44", "60", "80"])
def test_it_keeps_to_one_line(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal the label is shortened, then the bar left out, so that no line wraps."""
    monkeypatch.setenv("COLUMNS", columns)
    clock, terminal = VirtualClock(), Terminal()
    with Progress("a scenario with a long name\n\x1b[31m", stream=terminal, clock=clock) as progress:
        clock.advance(2.0)
        progress(300, 1200)
    drawn = terminal.getvalue().split("\r")[1].removesuffix("\033[K")
    assert len(drawn) < int(columns)
    assert drawn.isprintable()


def test_a_dumb_terminal_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a line cannot be erased, none is drawn."""
    monkeypatch.setenv("TERM", "dumb")
    clock, terminal = VirtualClock(), Terminal()
    with Progress("sweep", stream=terminal, clock=clock) as progress:
        clock.advance(2.0)
        progress(300, 1200)
    assert terminal.getvalue() == ""


def test_a_terminal_that_goes_away_does_not_end_the_work() -> None:
    """A bar that cannot be drawn any more is given up, and nothing is raised."""

    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    clock = VirtualClock()
    with Progress("sweep", stream=Gone(), clock=clock) as progress:
        for done in range(3):
            clock.advance(2.0)
            progress(done, 3)
        progress.say("still here")


def test_what_is_said_stands_on_a_line_of_its_own() -> None:
    """A sentence takes the bar's place, and the bar is drawn anew below it."""
    clock, terminal = VirtualClock(), Terminal()
    with Progress("sweep", stream=terminal, clock=clock) as progress:
        clock.advance(2.0)
        progress(3, 12)
        progress.say("stopping")
        clock.advance(2.0)
        progress(6, 12)
    assert "\033[K\r\033[Klabkit: stopping\n\rsweep  [" in terminal.getvalue()


def test_a_file_gets_no_bar() -> None:
    """Where the stream is no terminal, nothing is drawn however long it takes."""
    clock, stream = VirtualClock(), io.StringIO()
    with Progress("sweep", stream=stream, clock=clock) as progress:
        clock.advance(100.0)
        progress(1, 2)
    assert stream.getvalue() == ""
