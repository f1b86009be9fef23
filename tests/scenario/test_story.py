"""The sentences about a run, each held against a trace that says so."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.scenario import load_scenario, metrics, run_scenario, scenario_names, story

EVERY = [
    name if variant is None else f"{name}:{variant}"
    for name in scenario_names()
    for variant in (None, *load_scenario(name).variants)
]


def told(scenario: Any) -> list[str]:
    """The story of a scenario's run."""
    trace = run_scenario(scenario)
    return story(trace, metrics(trace))


def test_an_outage_is_told_from_the_first_call_to_the_callers(small: Any) -> None:
    """Arrivals, fault, opening, rejections, probes, reopening, closing, recovery and outcomes follow each other."""
    assert told(small()) == [
        "200 calls arrived within 20 s.",
        "The fault of parts_availability (error) lasted from 5 to 12 s.",
        "The breaker opened at 5.25 s, after 3 failed attempts in a row.",
        "The breaker turned callers away 80 times.",
        "The first probe was sent at 9.3 s; of 2 in all 1 succeeded and 1 failed.",
        "A failed probe opened the breaker again.",
        "The breaker closed for good at 13.5 s.",
        "Full service was back 1.4 s after the repair.",
        "Of 200 calls 116 succeeded, 80 were rejected and 4 failed.",
        "Within one second of the clock at most 10 attempts reached the dependency, and at most 1 was in flight.",
    ]


def test_replicas_are_told_together(small: Any) -> None:
    """Four replicas' breakers are one sentence, with how many failures each had and how many probes ran at once."""
    sentences = told(small(scenario__replicas=4, workload__0__rate=40))
    assert sentences[0] == "800 calls arrived within 20 s, dealt to 4 replicas."
    assert sentences[2] == (
        "The breakers of 4 replicas opened from 5.25 to 5.33 s, after 3 failed attempts in a row each; "
        "2 attempts were in flight then."
    )
    (probes,) = [line for line in sentences if "first probes" in line]
    assert probes.startswith("4 replicas sent their first probes from 9.")
    assert "were in flight at once." in probes
    assert "All breakers closed for good at 13.5 s." in sentences


def test_time_outs_are_called_so_and_what_is_in_flight_is_counted(small: Any) -> None:
    """Under a hang the attempts in a row are time-outs, and those still waiting when the breaker opened are told."""
    hang = small(services__parts_availability__faults=[{"from": 5, "to": 12, "fault": "hang"}])
    (opened,) = [line for line in told(hang) if line.startswith("The breaker opened")]
    # The call of 5.2 s, the third, times out at 7.2 s; those of 5.3 to 7.1 s wait.
    assert opened == "The breaker opened at 7.2 s, after 3 time-outs in a row; 19 attempts were in flight then."


def test_callers_that_give_up_make_no_time_outs(small: Any) -> None:
    """An attempt that was cut off because its caller lost patience is not among the time-outs in a row."""
    patient = small(
        services__parts_availability__faults=[{"from": 5, "to": 12, "fault": "hang"}],
        workload=[
            {"function": "parts_availability", "rate": 10, "to": 10},
            {"function": "parts_availability", "at": [5.05, 5.15], "patience": 1.5},
        ],
    )
    sentences = told(patient)
    assert any("after 3 time-outs in a row" in line for line in sentences)
    assert "2 were given up by their callers" in sentences[-2]


def test_a_breaker_that_stays_closed_is_told_beside_what_failed(small: Any) -> None:
    """Where no breaker opens, the sentence says how many attempts failed all the same."""
    quiet = small(middleware__breaker__failure_threshold=1000)
    assert "No breaker opened, although 70 of 200 attempts failed." in told(quiet)
    calm = small(services__parts_availability__faults=[])
    assert "No breaker opened." in told(calm)


def test_a_breaker_that_is_left_open_is_told(small: Any) -> None:
    """A run that ends before the breaker closes says so, and that full service was not back."""
    sentences = told(small(middleware__breaker__cooldown_period=100))
    assert "The breaker had not closed when the run ended." in sentences
    assert "Full service, five seconds of it, was not back before the end." in sentences
    assert not any("probe" in line for line in sentences)


def test_answers_that_are_none_are_told(small: Any) -> None:
    """Error texts taken for answers count as succeeded, and the sentence says that they are hollow."""
    swallowed = small(functions__parts_availability__adapter="swallowing")
    assert "Of 200 calls 200 succeeded (70 of them without a live answer)." in told(swallowed)


def test_a_number_is_only_given_where_it_decided(small: Any) -> None:
    """A breaker that counts over time is not said to have opened after a row that had not opened it before."""
    window = small(
        middleware__breaker={
            "_type": "window_circuit_breaker",
            "failure_threshold": 6,
            "interval": 60.0,
            "open_duration": 4.0,
        },
        services__parts_availability__faults=[
            {"from": 5, "to": 5.3, "fault": "error"},
            {"from": 6, "to": 6.3, "fault": "error"},
        ],
    )
    (opened,) = [line for line in told(window) if line.startswith("The breaker opened")]
    assert "in a row" not in opened


def test_the_same_fault_again_and_again_is_one_sentence(small: Any) -> None:
    """Faults of one kind are told once, with how often they came."""
    twice = small(
        services__parts_availability__faults=[
            {"from": 2, "to": 3, "fault": "error"},
            {"from": 6, "to": 8, "fault": "error"},
        ]
    )
    assert told(twice)[1] == (
        "The fault of parts_availability (error) came twice, "
        "from 2 to 3 s for the first time and until 8 s for the last."
    )


def test_less_capacity_is_told_in_steps(small: Any) -> None:
    """A slow recovery is told as workers that come back, and not as a fault."""
    slow = small(
        services__parts_availability__workers=10,
        services__parts_availability__queue=50,
        services__parts_availability__faults=[
            {"from": 5, "to": 9, "fault": "slow_recovery", "capacity": [[5, 2], [7, 5]]}
        ],
    )
    assert "parts_availability had fewer workers from 5 to 9 s: 2 of 10, then 5 of 10." in told(slow)


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_of_the_library_can_be_told(name: str) -> None:
    """The story of each scenario that comes with labkit is whole sentences without an odd plural."""
    for sentence in told(load_scenario(name)):
        assert sentence.endswith(".")
        assert sentence[0].isupper() or sentence[0].isdigit() or sentence.startswith(("parts_", "maintenance_"))
        for odd in (" 1 calls", " 1 attempts", "once times", "None", "nan ", "  "):
            assert odd not in sentence


@pytest.mark.parametrize("name", EVERY)
def test_every_scenario_of_the_package_can_be_told(name: str) -> None:
    """Each scenario that comes with labkit, and each variant, has a story of whole sentences."""
    trace = run_scenario(load_scenario(name))
    sentences = story(trace, metrics(trace))
    assert sentences[0].endswith(".")
    assert all(line.endswith(".") and "None" not in line for line in sentences)
