"""Ribbons of several machines over the same steps: everything in its place, and in words where they part."""

from __future__ import annotations

import pytest

from labkit.plots.machines.step_ribbons import StepCell, step_ribbons
from tests.plots.geometry import outside, overlapping, texts

STEPS = [("S", "arrives"), ("F", "arrives"), ("F", "failure"), ("30 s", "pass"), ("P", "arrives"), ("S", "cancel"),
         ("Q", "arrives")]  # fmt: skip
SAME = [StepCell("CLOSED", "admitted")] * 2 + [StepCell("OPEN")] * 2 + [StepCell("HALF_OPEN", "probe")]
ROWS = [
    ("toolkit", [*SAME, StepCell("HALF_OPEN", "a fault", True), StepCell("HALF_OPEN", "probe", True)]),
    ("guarded", [*SAME, StepCell("HALF_OPEN", "late"), StepCell("HALF_OPEN", "rejected")]),
]


@pytest.mark.parametrize("width", [860.0, 400.0])
@pytest.mark.parametrize("times", [0, 1, 4])
def test_everything_in_its_place(times: int, width: float) -> None:
    """However many steps there are and however narrow it is, nothing leaves the picture and no words lie on others."""
    picture = step_ribbons(STEPS * times, [(name, cells * times) for name, cells in ROWS], width=width)
    assert outside(picture) == []
    assert overlapping(picture) == []


def test_the_last_steps_are_shown() -> None:
    """Where not all fit, the last ones are shown, and it is said how many were before."""
    picture = step_ribbons(STEPS * 4, [(name, cells * 4) for name, cells in ROWS])
    shown = texts(picture)
    assert f"{len(STEPS) * 4 - 11} before" in shown
    assert shown.count("Q") == 2
    assert "before" not in " ".join(texts(step_ribbons(STEPS, ROWS)))


def test_where_they_part_is_framed_and_said() -> None:
    """A cell that parts from the others has a frame, and the words for who cannot see it name step, machine, state."""
    picture = step_ribbons(STEPS, ROWS)
    frames = [shape for shape in picture.shapes if getattr(shape, "line", 0.0) == 2.5]
    assert len(frames) == 2
    assert picture.alt == (
        "7 steps. They part at step 6 (S cancel): toolkit a fault half-open; at step 7 (Q arrives): toolkit probe "
        "half-open. Now: toolkit half-open, guarded half-open."
    )
    alike = step_ribbons(STEPS, [ROWS[1], ("window", ROWS[1][1])])
    assert "They never parted." in alike.alt
    assert step_ribbons([], [("toolkit", [])]).alt == "No step so far."
