"""One look for every picture: colours, shapes, textures, type. Improve it here and nowhere beside it.

A state is read from its texture and its word before its colour. The colours keep a contrast of at least 3 on white and
on #1E1E1E (4.5 on white, where a colour carries words), so a picture serves the light and the dark theme unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "DARK",
    "FONT_FAMILY",
    "INKS",
    "LINES",
    "MARKS",
    "MONO_FAMILY",
    "PAPER",
    "RAMP",
    "SERIES",
    "SIZE",
    "SIZE_LABEL",
    "SIZE_SMALL",
    "SIZE_TICK",
    "SIZE_TITLE",
    "STATES",
    "TEXTURES",
    "THEMED",
    "LineStyle",
    "MarkStyle",
    "SeriesStyle",
    "StateStyle",
    "contrast",
    "ramp_colour",
    "state_style",
    "width_of",
]


class StateStyle(NamedTuple):
    """How a breaker's state looks.

    Attributes:
        word: what it is called in a picture.
        colour: "#RRGGBB".
        texture: "solid", "hatch" (diagonal lines) or "dots".
    """

    word: str
    colour: str
    texture: str


class MarkStyle(NamedTuple):
    """How one thing that happened looks.

    Attributes:
        word: what it is called in a picture.
        colour: "#RRGGBB".
        shape: "dot", "cross", "ringed cross", "bar", "ring", "diamond", "square" or "triangle".
    """

    word: str
    colour: str
    shape: str


class LineStyle(NamedTuple):
    """How one quantity over time looks.

    Attributes:
        word: what it is called in a picture.
        colour: "#RRGGBB" or one of `INKS`.
        line: how thick, in pixels.
        texture: what is under it: "" (nothing), "solid", "hatch" or "dots".
        fade: how opaque a solid is, from 0 to 1.
    """

    word: str
    colour: str
    line: float
    texture: str = ""
    fade: float = 1.0


class SeriesStyle(NamedTuple):
    """How one of several lines that stand for nothing but themselves looks, such as one run of three.

    Attributes:
        colour: "#RRGGBB".
        dashes: lengths of ink and gap in line widths; () for a line without gaps.
        shape: of its marks: "dot", "square", "triangle", "diamond", "cross" or "bar".
        texture: of its band: "solid", "hatch" or "dots", or "back hatch", which leans the other way.
    """

    colour: str
    dashes: tuple[float, ...]
    shape: str
    texture: str


STATES: Mapping[str, StateStyle] = MappingProxyType(
    {
        "CLOSED": StateStyle("closed", "#0072B2", "solid"),
        "OPEN": StateStyle("open", "#C24E00", "hatch"),
        "HALF_OPEN": StateStyle("half-open", "#A66900", "dots"),
    }
)

MARKS: Mapping[str, MarkStyle] = MappingProxyType(
    {
        "success": MarkStyle("success", "#009E73", "dot"),
        "failure": MarkStyle("failure", "#C24E00", "cross"),
        "timeout": MarkStyle("time-out", "#C24E00", "ringed cross"),
        "rejection": MarkStyle("rejection", "#6B7280", "bar"),
        "cancelled": MarkStyle("cancelled", "#6B7280", "ring"),
        "probe": MarkStyle("probe", "#A8497E", "diamond"),
        "unavailable": MarkStyle("told unavailable", "#6B7280", "square"),
        "not_useful": MarkStyle("answered, of no use", "#A8497E", "triangle"),
    }
)

# What became of calls is stacked, so each has a texture of its own; what a dependency sees is told by thickness, words
# and place. Nothing here takes a state's blue.
LINES: Mapping[str, LineStyle] = MappingProxyType(
    {
        "offered": LineStyle("offered", "text", 1.5),
        "answered": LineStyle("answered", "#009E73", 2.0, "solid", 0.28),
        "not_useful": LineStyle("answered, of no use", "#A8497E", 2.0, "hatch"),
        "failed": LineStyle("failed", "#C24E00", 2.0, "dots"),
        "cancelled": LineStyle("gave up", "#6B7280", 1.5),
        "unavailable": LineStyle("told unavailable", "#6B7280", 1.5, "hatch"),
        "attempts": LineStyle("attempts", "text", 1.8, "solid", 0.1),
        "in_flight": LineStyle("in flight", "text", 1.8, "solid", 0.1),
        "capacity": LineStyle("workers", "#C24E00", 1.5),
        "median": LineStyle("p50", "text", 2.2),
        "p95": LineStyle("p95", "line", 1.4),
    }
)

# Told apart by dashes, marks and words before their colours; what means a failure elsewhere comes last.
SERIES: tuple[SeriesStyle, ...] = (
    SeriesStyle("#0072B2", (), "dot", "solid"),
    SeriesStyle("#A8497E", (4.5, 1.5), "square", "hatch"),
    SeriesStyle("#A66900", (1.2, 1.2), "triangle", "dots"),
    SeriesStyle("#009E73", (6.0, 1.5, 1.2, 1.5), "diamond", "back hatch"),
    SeriesStyle("#6B7280", (2.6, 1.2), "bar", "hatch"),
    SeriesStyle("#C24E00", (8.0, 2.4), "cross", "dots"),
)

OTHER_STATE = StateStyle("", "#6B7280", "solid")

# What is not a state or a mark: by its role, so that the same drawing can take a theme's colours or a file's.
INKS = ("text", "muted", "line", "faint", "panel", "paper", "band", "grid")

#: How far apart and how thick (radius of a dot), in pixels. Boxes are small and coarse; areas are large and fine.
TEXTURES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"hatch": (8.0, 3.0), "dots": (6.0, 1.3), "fine hatch": (6.0, 1.0), "fine dots": (5.0, 0.9)}
)

#: For a file: ink on an opaque white card, so that it can be read on any page, dark ones too.
PAPER: Mapping[str, str] = MappingProxyType(
    {
        "text": "#1F2937",
        "muted": "#4B5563",
        "line": "#6B7280",
        "faint": "#D1D5DB",
        "panel": "#F5F6F8",
        "paper": "#FFFFFF",
        "band": "#FBEDE2",
        "grid": "#D9DDE3",
    }
)

#: For a figure on a dark page; the same as in widgets/stage.css, with a band and a grid that are seen there.
DARK: Mapping[str, str] = MappingProxyType(
    {
        "text": "#ECEFF4",
        "muted": "#C3C9D4",
        "line": "#9AA3B2",
        "faint": "#434A57",
        "panel": "#1F232A",
        "paper": "#181B20",
        "band": "#3B2A22",
        "grid": "#434A57",
    }
)

#: For a page: JupyterLab's own colours where there are any, the page's text colour elsewhere.
THEMED: Mapping[str, str] = MappingProxyType(
    {
        "text": "var(--labkit-text, currentColor)",
        "muted": "var(--labkit-muted, currentColor)",
        "line": "var(--labkit-line, #6B7280)",
        "faint": "var(--labkit-faint, #9CA3AF)",
        "panel": "var(--labkit-panel, transparent)",
        "paper": "var(--labkit-paper, transparent)",
        "band": "var(--labkit-band, rgba(194, 78, 0, 0.13))",
        "grid": "var(--labkit-grid, rgba(127, 127, 127, 0.3))",
    }
)

FONT_FAMILY = (
    "var(--jp-content-font-family, system-ui), -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
)
MONO_FAMILY = "var(--jp-code-font-family, ui-monospace), Menlo, Consolas, 'DejaVu Sans Mono', monospace"

SIZE = 14.0  # pixels at the size in which a picture is shown; about 11 pt
SIZE_SMALL = 12.5
SIZE_LABEL = 11.5  # words inside a panel
SIZE_TICK = 11.0  # numbers on an axis
SIZE_TITLE = 16.0

#: A heat map's hue, from the least to the most.
RAMP = ("#DCEBF5", "#0072B2", "#063A5C")

# Advance widths in thousandths of the size, of a common sans serif, from which widths are
# taken with room to spare, since the page's own font is not known here.
_WIDTHS = {
    **dict.fromkeys("abdeghnopqu_0123456789$#", 556),
    **dict.fromkeys("csvxyzkJ", 500),
    **dict.fromkeys("ft.,:;/I! '|", 278),
    **dict.fromkeys("ijl", 222),
    **dict.fromkeys("r-()[]", 333),
    **dict.fromkeys("+=<>≥≤", 584),
    **dict.fromkeys("ABEKPSVXY&", 667),
    **dict.fromkeys("CDHNRUw", 722),
    **dict.fromkeys("GOQ", 778),
    **dict.fromkeys("mM%", 833),
    **dict.fromkeys("FTZ", 611),
    "L": 556,
    "W": 944,
    "→": 1000,
    "·": 278,
    "×": 584,
}


@lru_cache(maxsize=4096)
def width_of(text: str, size: float = SIZE, *, bold: bool = False, mono: bool = False) -> float:
    """Return about how wide a line of text is, in the units of `size`; a little more than in most fonts.

    Args:
        text: one line.
        size: of the letters, in pixels.
        bold, mono: the style in which they are drawn.

    >>> round(width_of("closed", 14.0), 1), width_of("ab", 10.0, mono=True)
    (47.7, 12.2)
    """
    if mono:
        return round(len(text) * 0.61 * size, 6)
    return sum(_WIDTHS.get(char, 600) for char in text) * size / 1000 * (1.3 if bold else 1.18)


def state_style(state: str) -> StateStyle:
    """Return how a state looks. One that is not a breaker's gets its own name, in words, and the neutral look.

    >>> state_style("HALF_OPEN").word, state_style("GAVE_UP").word
    ('half-open', 'gave up')
    """
    return STATES.get(state) or OTHER_STATE._replace(word=state.replace("_", " ").lower())


def ramp_colour(share: float) -> str:
    """Return the colour of a heat map's cell, from 0 for the least to 1 for the most.

    >>> ramp_colour(0.0), ramp_colour(0.5), ramp_colour(1.0)
    ('#DCEBF5', '#0072B2', '#063A5C')
    """
    part = min(1, int(share * 2))
    rest = share * 2 - part
    pairs = [(int(RAMP[part][i : i + 2], 16), int(RAMP[part + 1][i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * rest):02X}" for a, b in pairs)


def contrast(colour: str, ground: str) -> float:
    """Return the WCAG contrast ratio of two colours, each "#RRGGBB": 1.0 for equal ones, 21.0 for black and white.

    >>> contrast("#000000", "#FFFFFF")
    21.0
    """
    lighter, darker = sorted((_luminance(colour), _luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
