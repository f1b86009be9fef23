"""One stream over time: who waits for whom, and which limit's clock runs meanwhile.

A limit's clock is drawn as it fills up to its limit: it rises while it runs, lies flat on the ground while it stands
still, and begins anew at the bottom. What reaches the top has run out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from labkit.plots.draw.picture import Picture
from labkit.plots.draw.shapes import Area, Box, Disc, Line, Shape, Words, mark
from labkit.plots.draw.style import SIZE, SIZE_LABEL, SIZE_TICK, STATES, width_of
from labkit.plots.runs.binned import round_step

if TYPE_CHECKING:
    from labkit.scenario.watch.streams import LimitClock, StreamRead, Ticking

__all__ = ["stream_timeline"]

_LEFT, _RIGHT, _EDGE = 16.0, 18.0, 10.0
_HEAD, _GAP = 24.0, 9.0
_STREAM, _CLOCK, _RIBBON = 46.0, 50.0, 22.0
_ROOM = 0.84  # of a clock's panel, up to its limit
_ENDS = {"read": "success", "left": "cancelled", "cancelled": "cancelled", "failed": "failure"}
_SETTINGS = ("timeout", "probe_timeout")
_WHAT = {"timeout": "for the whole stream", "probe_timeout": "for each wait of a probe"}

At = Callable[[float], float]


def stream_timeline(read: StreamRead, *, width: float = 860.0, title: str = "One stream") -> Picture:
    """Return the picture of one stream: its waits and chunks, its limits' clocks, its breaker.

    The height is the same for every stream.

    Args:
        read: the stream.
        width: of the picture, in pixels.
        title: what it is called.
    """
    end = _axis_end(read)
    right = max(width - _RIGHT, _LEFT + 60.0)

    def at(seconds: float) -> float:
        """Where a moment of the run lies."""
        share = min(1.0, max(0.0, (seconds - read.start) / end))
        return round(_LEFT + (right - _LEFT) * share, 2)

    shapes: list[Shape] = []
    y = _HEAD
    came = f"{_chunks(read.chunks)} came"
    shapes += _head("the stream", came, y)
    shapes += _key(right, y - 7.0, least=_used("the stream", came))
    shapes.append(Box(_LEFT, y, right - _LEFT, _STREAM, fill="panel"))
    shapes += _waits(read, at, y, right)
    tops = {}
    y += _STREAM + _GAP
    clocks = {clock.setting: clock for clock in read.clocks}
    for setting in _SETTINGS:
        y += _HEAD
        tops[setting] = y
        clock = clocks.get(setting)
        limit = f"{clock.seconds:g} s " if clock is not None else ""
        shapes += _head(setting, limit + _WHAT[setting], y, _left(clock, read), right)
        shapes.append(Box(_LEFT, y, right - _LEFT, _CLOCK, fill="panel"))
        if clock is None or not clock.runs:
            why = f"no {setting}" if clock is None else "an ordinary call: its clock never runs"
            shapes.append(Words((_LEFT + right) / 2, y + _CLOCK / 2 + 4.0, why, SIZE_LABEL, "middle", ink="muted",
                                italic=True))  # fmt: skip
        else:
            shapes += _clock(clock, read, at, y, right)
        y += _CLOCK + _GAP
    shapes += _struck_line(read, at, tops)
    y += _HEAD
    shapes += _head("the breaker", _counts(read), y)
    shapes += _ribbon(read, at, y, right)
    y += _RIBBON + 5.0
    shapes += _axis(end, at, read.start, y, right)
    return Picture(width, y + 28.0, tuple(shapes), title, " ".join(read.told()))


def _axis_end(read: StreamRead) -> float:
    """Seconds of the axis; a few round lengths, so that it stays as it is while a slider moves a little."""
    reach = read.took * 1.05
    for clock in read.clocks:
        if clock.setting == "timeout" and clock.runs:
            reach = max(reach, min(clock.seconds * 1.05, 3.0 * reach))
    return max(1.0, next((one for one in (2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0) if one >= reach), reach))


def _head(name: str, tail: str, y: float, told: Sequence[str] = (), right: float = 0.0) -> list[Shape]:
    """A panel's name, and at its right the longest of some words that there is room for."""
    shapes: list[Shape] = [Words(_EDGE, y - 7.0, name, SIZE, bold=True, tail=tail)]
    used = _used(name, tail)
    for words in told:
        if used + width_of(words, SIZE_LABEL) <= right:
            shapes.append(Words(right, y - 7.0, words, SIZE_LABEL, "end"))
            break
    return shapes


def _used(name: str, tail: str) -> float:
    """Where a panel's head has room again."""
    return _EDGE + width_of(name, SIZE, bold=True) + SIZE / 2 + width_of(tail, SIZE) + 10.0


def _left(clock: LimitClock | None, read: StreamRead) -> list[str]:
    """What became of a limit, in words, the longest first."""
    if clock is None or not clock.runs:
        return []
    last = clock.runs[-1]
    if clock is read.struck:
        ran_out = f"ran out at {round(last.due - read.start, 2):g} s"
        return [f"{ran_out}: here toolkit 1.9.0 cancels the reader", ran_out] if read.kept_waiting else [ran_out]
    if clock.setting == "timeout":
        return [f"{round(last.due - last.end, 2):g} s left"]
    return [f"{round(clock.seconds - read.longest, 2):g} s left after the longest wait"]


def _key(right: float, y: float, least: float) -> list[Shape]:
    """What the two textures of the stream's panel are, right-aligned on a baseline, as far as there is room."""
    shapes: list[Shape] = []
    for word, texture in (("the reader is busy", "hatch"), ("waits", "")):
        right -= width_of(word, SIZE_TICK)
        if right - 22.0 < least:
            break
        shapes.append(Words(round(right, 2), y, word, SIZE_TICK, ink="muted"))
        right = round(right - 22.0, 2)
        corners = ((right, y - 9.5), (right + 17.0, y - 9.5), (right + 17.0, y + 1.5), (right, y + 1.5))
        shapes.append(Area(corners, "line" if texture else "faint", texture or "solid"))
        right -= 12.0
    return shapes


def _chunks(many: int) -> str:
    return f"{many} chunk" if many == 1 else f"{many} chunks"


def _waits(read: StreamRead, at: At, top: float, right: float) -> list[Shape]:
    """The waits, the reader's own time between them, each chunk where it came, and how it ended."""
    shapes: list[Shape] = []
    y, high = top + 8.0, _STREAM - 16.0
    for index, wait in enumerate(read.waits):
        x0, x1 = at(wait.asked), at(wait.ended)
        if x1 > x0:
            shapes.append(Box(x0, y, round(x1 - x0, 2), high, fill="faint"))
        until = read.waits[index + 1].asked if index + 1 < len(read.waits) else read.end
        x2 = at(until)
        if wait.chunk and x2 > x1:
            # Fine lines on the panel's ground, so that they do not look like an open breaker.
            corners = ((x1, y), (x2, y), (x2, y + high), (x1, y + high))
            shapes.append(Area(corners, "line", "hatch"))
    last = -1e9
    number = 0
    for wait in read.waits:
        if not wait.chunk:
            continue
        number += 1
        x = at(wait.ended)
        big = x - last >= 20.0
        shapes.append(Disc(x, y + high / 2, 9.5 if big else 4.5, fill="text", stroke="paper", line=1.5))
        if big:
            shapes.append(Words(x, y + high / 2 + 4.2, f"{number}", SIZE_LABEL, "middle", ink="paper", bold=True))
            last = x
    x = at(read.end)
    kind = "timeout" if read.struck is not None else _ENDS[read.how]
    place = x if x - last > 20.0 else last + 20.0
    place = min(place, right - 8.0)
    shapes += mark(kind, round(place, 2), y + high / 2, size=6.5)
    return shapes


def _clock(clock: LimitClock, read: StreamRead, at: At, top: float, right: float) -> list[Shape]:
    base, full = top + _CLOCK - 1.0, (_CLOCK - 1.0) * _ROOM
    limit = round(base - full, 2)
    ink = "#C24E00"
    shapes: list[Shape] = [Line(((_LEFT, limit), (right, limit)), ink, 1.2, dash=True)]
    before = read.start
    for run in clock.runs:
        if run.begin > before + 1e-9:
            shapes += _still(at(before), at(run.begin), base)
        shapes += _run(run, clock.seconds, at, base, full)
        before = run.end
    if clock.setting == "probe_timeout" and read.end > before + 1e-9:
        shapes += _still(at(before), at(read.end), base)
    if clock.runs[-1].due <= clock.runs[-1].end + 1e-9:
        x = at(clock.runs[-1].due)
        shapes += mark("timeout", x, limit, size=5.5)
    return shapes


def _run(run: Ticking, seconds: float, at: At, base: float, full: float) -> list[Shape]:
    """One stretch in which the clock runs: from the ground up, at the limit along the top."""
    stop = min(run.end, run.due)
    x0, x1, x2 = at(run.begin), at(stop), at(run.end)
    top = round(base - full * min(1.0, (stop - run.begin) / seconds), 2)
    upper = [(x0, base), (x1, top), *([(x2, top)] if x2 > x1 else [])]
    shapes: list[Shape] = []
    if x1 > x0:
        shapes.append(Area((*upper, (upper[-1][0], base)), "text", "solid", 0.16))
        shapes.append(Line(tuple(upper), "text", 2.0))
        shapes.append(Line((upper[-1], (upper[-1][0], base)), "line", 1.0))
    return shapes


def _still(x0: float, x1: float, base: float) -> list[Shape]:
    """A stretch in which the clock stands still."""
    shapes: list[Shape] = [Line(((x0, base), (x1, base)), "text", 3.0, dash=True)]
    if width_of("stands still", SIZE_LABEL) + 8.0 <= x1 - x0:
        shapes.append(Words(round((x0 + x1) / 2, 2), base - 6.0, "stands still", SIZE_LABEL, "middle", ink="muted"))
    return shapes


def _struck_line(read: StreamRead, at: At, tops: dict[str, float]) -> list[Shape]:
    """Where a limit ran out while the reader was busy, from the stream down to the clock."""
    struck = read.struck
    if struck is None or not read.kept_waiting:
        return []
    x = at(struck.runs[-1].due)
    clock = tops[struck.setting]
    return [
        Line(((x, _HEAD), (x, _HEAD + _STREAM)), "#C24E00", 1.4, dash=True),
        Line(((x, clock), (x, round(clock + (_CLOCK - 1.0) * (1.0 - _ROOM), 2))), "#C24E00", 1.4, dash=True),
    ]


def _counts(read: StreamRead) -> str:
    """What it counts, for the breaker's head."""
    words = {"succeeded": "counts a success", "failed": "counts a failure", "cancelled": "counts neither way"}
    return words.get(read.counted, "")


def _ribbon(read: StreamRead, at: At, y: float, right: float) -> list[Shape]:
    shapes: list[Shape] = []
    whole = read.states
    for index, (when, state) in enumerate(whole):
        x0 = at(when)
        x1 = at(whole[index + 1][0]) if index + 1 < len(whole) else right
        if x1 - x0 < 0.5:
            continue
        style = STATES[state]
        shapes.append(Box(x0, y, round(x1 - x0, 2), _RIBBON, fill=style.colour, texture=style.texture, ink="#FFFFFF"))
        wide = width_of(style.word, SIZE_TICK, bold=True) + 12.0
        if wide + 8.0 <= x1 - x0:
            shapes.append(Box(x0 + 4.0, y + 3.0, wide, _RIBBON - 6.0, 3.0, fill=style.colour))
            shapes.append(Words(x0 + 10.0, y + _RIBBON / 2 + 4.0, style.word, SIZE_TICK, ink="#FFFFFF", bold=True))
    return shapes


def _axis(end: float, at: At, start: float, y: float, right: float) -> list[Shape]:
    shapes: list[Shape] = [Line(((_LEFT, y), (right, y)), "line", 1.2)]
    step = round_step(end / max(2.0, min(10.0, (right - _LEFT) / 62.0)))
    count = int(end / step + 1e-9)
    for index in range(count + 1):
        x = at(start + index * step)
        text = f"{index * step:g}" + (" s" if index == count else "")
        shapes.append(Line(((x, y), (x, y + 5.0)), "line", 1.2))
        half = width_of(text, SIZE_TICK) / 2
        shapes.append(Words(round(min(x, right + 14.0 - half), 2), y + 18.0, text, SIZE_TICK, "middle", ink="muted"))
    return shapes
