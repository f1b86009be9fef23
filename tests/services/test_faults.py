from __future__ import annotations

import math

import pytest

from labkit.errors import ServiceError
from labkit.services import HEALTHY, Fault, FaultKind, FaultPlan, Window


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("hang", FaultKind.HANG),
        ("Connection-Error", FaultKind.CONNECTION_ERROR),
        (" error shaped string ", FaultKind.ERROR_SHAPED_STRING),
        (FaultKind.SLOW, FaultKind.SLOW),
    ],
)
def test_names_are_read_kindly(written, kind):
    """Capitals, hyphens and spaces do not matter in a fault's name."""
    assert Fault(written).kind is kind


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("hnag", "hang"), ("eror", "error"), ("mid-stream-deth", "mid_stream_death")]
)
def test_a_misspelt_fault_names_the_nearest(wrong, nearest):
    """A misspelt name is one sentence that names the nearest fault and all others."""
    with pytest.raises(ServiceError) as caught:
        Fault(wrong)
    assert f"did you mean '{nearest}'?" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all(kind.value in str(caught.value) for kind in FaultKind)


def test_a_long_name_is_cut():
    """A name of a megabyte does not become a message of a megabyte."""
    with pytest.raises(ServiceError) as caught:
        Fault("x" * 1_000_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "slow", "seconds": -1}, "'seconds'"),
        ({"kind": "slow", "seconds": math.nan}, "'seconds'"),
        ({"kind": "slow", "seconds": math.inf}, "'seconds'"),
        ({"kind": "slow", "seconds": True}, "'seconds'"),
        ({"kind": "slow", "seconds": "3"}, "'seconds'"),
        ({"kind": "slow", "factor": -2}, "'factor'"),
        ({"kind": "slow", "seconds": 1, "factor": 2}, "both"),
        ({"kind": "hang", "seconds": 1}, "never answers"),
        ({"kind": "error", "rate": 1.1}, "'rate'"),
        ({"kind": "error", "rate": -0.1}, "'rate'"),
        ({"kind": "error", "chunks": 1}, "'chunks'"),
        ({"kind": "mid_stream_death", "chunks": -1}, "'chunks'"),
        ({"kind": "mid_stream_death", "chunks": 1.5}, "'chunks'"),
        ({"kind": None}, "a name"),
    ],
)
def test_bad_settings_are_one_sentence(settings, said):
    """A setting out of range, or one that does not belong to the fault, is refused by its name."""
    with pytest.raises(ServiceError) as caught:
        Fault(**settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        HEALTHY,
        Fault("slow", factor=4),
        Fault("slow"),
        Fault("error", rate=0.25),
        Fault("mid_stream_death", chunks=2),
    ],
    ids=lambda fault: str(fault.to_dict()),
)
def test_a_fault_survives_plain_data(fault):
    """A fault written as plain data and read again is the same fault."""
    assert Fault.from_dict(fault.to_dict()) == fault


def test_a_misspelt_setting_names_the_nearest():
    """A misspelt key in a fault's data is a sentence that names the nearest."""
    with pytest.raises(ServiceError, match="did you mean 'seconds'"):
        Fault.from_dict({"fault": "slow", "second": 3})
    with pytest.raises(ServiceError, match="'fault' is missing"):
        Fault.from_dict({"seconds": 3})


def test_a_plan_switches_at_its_edges():
    """A window holds from its start to just before its end, and windows may touch."""
    plan = FaultPlan(
        [Window(20, 30, "hang"), Window(5, 10, "error"), Window(10, 20, "slow")], otherwise="business_rejection"
    )
    seen = [str(plan.at(second)) for second in (0, 4.999, 5, 9.999, 10, 19.999, 20, 29.999, 30, 1e9)]
    assert seen == ["business_rejection"] * 2 + ["error"] * 2 + ["slow"] * 2 + ["hang"] * 2 + ["business_rejection"] * 2


def test_a_window_may_last_for_ever():
    """A window whose end is infinite never ends."""
    assert FaultPlan([Window(1, math.inf, "error")]).at(1e12).kind is FaultKind.ERROR


@pytest.mark.parametrize(
    ("start", "end"), [(5, 5), (6, 5), (-1, 5), (math.nan, 5), (0, math.nan), (math.inf, math.inf), ("1", 2)]
)
def test_a_window_needs_time(start, end):
    """A window that holds no time is refused in one sentence."""
    with pytest.raises(ServiceError) as caught:
        Window(start, end, "error")
    assert "window" in str(caught.value)


def test_windows_must_not_overlap():
    """Two windows over the same time would contradict each other: a sentence with both times."""
    with pytest.raises(ServiceError, match=r"overlap: one ends at 10 s and the next \('hang'\) starts at 9 s"):
        FaultPlan([Window(5, 10, "error"), Window(9, 12, "hang")])
    with pytest.raises(ServiceError, match="Window"):
        FaultPlan([(5, 10, "error")])  # type: ignore[list-item]
