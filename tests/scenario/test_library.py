"""The scenarios that come with labkit: each shows what it says, by the numbers of its trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from labkit.config.yaml.loader import open_document, read_stack_config
from labkit.errors import ConfigError
from labkit.scenario import METRICS, Scenario, Trace, load_scenario, metrics, run_scenario, scenario_names
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, CALL_OUTCOMES, PROBE_OUTCOMES, REJECTION_REASONS
from labkit.scenario.spec.reader import SECTIONS

LIBRARY = Path(str(files("labkit.scenario"))) / "library"
ENDS = ("succeeded", "failed", "cancelled", "rejected", "unavailable", "unfinished")


class Run:
    """One run of the library, read by tests."""

    def __init__(self, name: str) -> None:
        self.scenario = load_scenario(name)
        self.trace = run_scenario(self.scenario)
        found = metrics(self.trace)
        self.all: dict[str, Any] = found["all"]
        self.by: dict[str, dict[str, Any]] = found["functions"]

    def __getattr__(self, metric: str) -> Any:
        if metric not in METRICS:
            raise AttributeError(metric)
        return self.all[metric]

    def states(self, replica: int = 0, target: str | None = None) -> list[str]:
        """A breaker's states in order, as words; the only target unless one is named."""
        return [state for _, state in self.changes(replica, target)]

    def changes(self, replica: int = 0, target: str | None = None) -> list[tuple[float, str]]:
        """The same with times, rounded to milliseconds."""
        if not self.trace.breakers or not self.trace.targets:
            return [(0.0, "CLOSED")]  # nobody has reported anything
        if target is None:
            (target,) = self.trace.targets
        breaker = next(name for name in self.trace.breakers if "breaker" in name)
        return [(round(at, 3), state) for at, state in self.trace.states(breaker, target, replica)]

    def attempts_at(self, service: str, begin: float, end: float, outcome: str | None = None) -> int:
        """How many attempts arrived at a service within a time."""
        place = self.trace.services.index(service)
        return sum(
            one == place and begin <= start < end and (outcome is None or ATTEMPT_OUTCOMES[how] == outcome)
            for _, one, _, start, _, _, how in self.trace.attempts.rows()
        )

    def calls(self, begin: float, end: float, function: str | None = None) -> list[tuple[str, float, int]]:
        """Outcome, time taken and usefulness of the calls that arrived within a time."""
        return [
            ([*CALL_OUTCOMES, "unfinished"][outcome], round(finish - start, 6), useful)
            for start, finish, of, _, outcome, useful, _ in self.trace.calls.rows()
            if begin <= start < end and (function is None or self.trace.functions[of] == function)
        ]

    def answered(self, begin: float, end: float, function: str | None = None) -> float:
        """The share of the calls that arrived within a time and got a live answer."""
        useful = [one for _, _, one in self.calls(begin, end, function)]
        return sum(useful) / len(useful)

    def probe_ends(self) -> list[str]:
        """How the probes ended, in the order in which they began."""
        return [[*PROBE_OUTCOMES, "unfinished"][outcome] for *_, outcome in self.trace.probes.rows()]


@cache
def run(name: str) -> Run:
    """A run; none is made twice."""
    return Run(name)


def every_run() -> list[str]:
    """Every scenario, and every variant of it."""
    return [
        run
        for name in scenario_names()
        for run in (name, *(f"{name}:{variant}" for variant in load_scenario(name).variants))
    ]


SHOWN: set[str] = set()
"""The runs whose lesson a test below holds."""


def shows(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Note that a test holds what these runs show."""
    SHOWN.update(names)
    return lambda test: test


def times(found: Run, begin: float, end: float) -> list[tuple[str, float]]:
    """Outcome and time taken of the calls that arrived within a time."""
    return [(outcome, took) for outcome, took, _ in found.calls(begin, end)]


def always(name: str, *variants: str) -> list[Run]:
    """A scenario's runs: as it is, then by variant."""
    return [run(name), *(run(f"{name}:{variant}") for variant in variants)]


# --------------------------------------------------------------------------------------------- what holds for every one


def test_what_the_library_holds() -> None:
    """The decision, five checks, six traps, and the scenarios that the lesson names besides."""
    assert scenario_names() == sorted(
        [
            "decision",
            *("check-1-swallowed", "check-2-threshold", "check-3-replicas", "check-4-order", "check-5-unavailable"),
            *("trap-retry-on-open", "trap-cooldown-is-recovery", "trap-consecutive-is-rate", "trap-error-strings"),
            *("trap-probe-timeout-is-limit", "trap-one-instance-is-deployment"),
            *("scope-tool-or-assistant", "order-breaker-timeout", "retry-inside-or-outside"),
            *("stream-probe-limit", "stream-whole-limit", "stream-slow-consumer", "stream-early-break"),
            *("cancellation-storm", "name-collision", "consecutive-or-window", "business-rejections"),
            *("swallowed-exceptions", "open-breaker-retries", "long-hang", "retrip", "thundering-probe"),
            "retry-budget",
        ]
    )


def test_checks_and_traps_have_their_choices() -> None:
    """A check has one right choice and three wrong ones, a trap one of each, and a title says which is which."""
    for name in scenario_names():
        titles = [variant.title.partition(":")[0] for variant in load_scenario(name).variants.values()]
        if name.startswith("check-"):
            assert sorted(titles) == ["Right", "Wrong", "Wrong", "Wrong"]
        if name.startswith("trap-"):
            assert list(load_scenario(name).variants) == ["wrong", "right"]
            assert titles == ["Wrong", "Right"]


def test_a_wrong_choice_changes_what_it_says() -> None:
    """Every wrong choice of a check differs from the scenario as it stands, even where its run does not."""

    def parts(one: Scenario) -> tuple[Any, ...]:
        return one.stack.middleware, one.stack.functions, one.services, one.workload

    for name in every_run():
        found = run(name).scenario
        if name.startswith("check-") and found.title.startswith("Wrong: "):
            assert parts(found) != parts(run(name.partition(":")[0]).scenario)


def test_every_run_has_a_test() -> None:
    """No scenario and no variant comes without a test that holds what it shows."""
    assert set(every_run()) == SHOWN


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_says_what_to_look_for(name: str) -> None:
    """Every file and every variant has words of its own: a title, a summary in a line, what to look for."""
    scenario = load_scenario(name)
    assert scenario.title
    assert scenario.summary
    assert len(scenario.summary) <= 88  # beside the longest name in a list of 120 columns
    assert 3 <= scenario.look_for.count(". ") + 1 <= 8
    assert scenario.variants
    for variant in scenario.variants.values():
        found = scenario.variant(variant.name)
        assert found.title != scenario.title
        assert found.look_for != scenario.look_for
        assert found.look_for.endswith(".")


@pytest.mark.parametrize("name", scenario_names())
def test_the_stack_of_a_file_is_sound(name: str) -> None:
    """As `labkit check` sees it, the stack in a file has neither errors nor warnings."""
    document, report = open_document(LIBRARY / f"{name}.yaml")
    read_stack_config(document, report, also=SECTIONS)
    assert [finding.message for finding in report.findings] == []


@pytest.mark.parametrize("name", every_run())
def test_a_run_adds_up(name: str) -> None:
    """Every call has one end, by function and in all, and what was called useful was an answer."""
    found = run(name)
    for numbers in (found.all, *found.by.values()):
        assert sum(numbers[end] for end in ENDS) == numbers["offered"]
    assert sum(numbers["offered"] for numbers in found.by.values()) == found.offered == len(found.trace.calls) > 0
    assert {"toolkit", "azure"} >= {found.scenario.semantics}
    assert len(found.trace.attempts) == found.attempts > 0


@pytest.mark.parametrize("name", every_run())
def test_a_seed_gives_the_same_bytes(name: str) -> None:
    """A second run is equal to the first to the byte."""
    again = run_scenario(load_scenario(name))
    assert plain(again) == plain(run(name).trace)


def plain(trace: Trace) -> str:
    """A trace as JSON."""
    return json.dumps(trace.to_dict(), sort_keys=True)


@pytest.mark.parametrize("name", every_run())
def test_no_answer_is_invented(name: str) -> None:
    """No stock count is invented, but in the one variant that is told to guess."""
    assert (run(name).invented_answers > 0) == (name == "check-5-unavailable:cached-counts")


# --------------------------------------------------------------------------------------------------------- the decision


@shows("decision")
def test_decision() -> None:
    """Four breakers open at about 62 s, answer in the service's place, and close for good after the repair."""
    found = run("decision")
    assert found.offered == 24_000
    for replica in range(4):
        assert found.states(replica) == [*["CLOSED", "OPEN", "HALF_OPEN"], *["OPEN", "HALF_OPEN"] * 3, "CLOSED"]
        opened = found.changes(replica)[1][0]
        assert 62.2 <= opened <= 62.25
    assert found.time_to_open_s == pytest.approx(2.2)
    assert found.concurrent_probes_peak == 4
    assert (found.false_opens, found.retrips) == (0, 0)
    assert found.attempts_per_s_peak == 80
    assert found.attempts_at("parts_availability", 63, 180) == 12  # three probes on each replica, and nothing else
    assert found.probe_ends() == ["failed"] * 12 + ["succeeded"] * 12
    assert found.recovery_s == pytest.approx(8.4, abs=0.1)
    assert (found.rejected, found.failed) == (0, 0)  # whatever went wrong became an explicit outcome
    outage = found.calls(63, 180)
    assert {outcome for outcome, _, _ in outage} == {"unavailable"}
    assert sorted(took for _, took, _ in outage)[len(outage) * 99 // 100] == 0.0


@shows("decision:no-breaker")
def test_decision_without_a_breaker() -> None:
    """Three attempts for each of 80 requests/s are 240 attempts/s, and every caller waits over 6 s for nothing."""
    found = run("decision:no-breaker")
    assert found.attempts_per_s_peak == 240
    assert {found.attempts_at("parts_availability", second, second + 1) for second in range(66, 178)} == {240}
    assert 479 <= found.in_flight_peak <= 482  # 240 a second, each for 2 s
    assert {outcome for outcome, _, _ in found.calls(61, 170)} == {"unavailable"}
    assert {took for _, took, _ in found.calls(61, 170)} == {6.36}
    assert found.attempts > 3 * run("decision").attempts
    assert found.opens == 0


@shows("decision:shared-lease")
def test_decision_with_a_lease() -> None:
    """With a lease that all replicas share, never two probes run at once, and all four breakers still close."""
    found = run("decision:shared-lease")
    assert found.concurrent_probes_peak == 1
    assert found.probe_ends().count("succeeded") == 12  # three on each replica
    assert [found.states(replica)[-1] for replica in range(4)] == ["CLOSED"] * 4
    assert REJECTION_REASONS.index("lease") in set(found.trace.rejections.reason)
    assert run("decision").recovery_s < found.recovery_s < 20
    assert found.retrips == 0


@shows("decision:documents")
def test_decision_documents() -> None:
    """The documents are searched all the while, each of 6,000 searches with an answer."""
    found = run("decision:documents")
    documents = found.by["maintenance_documents"]
    assert (documents["offered"], documents["succeeded"], documents["opens"]) == (6000, 6000, 0)
    assert found.answered(60, 180, "maintenance_documents") == 1.0
    assert found.answered(63, 180, "parts_availability") == 0.0
    assert found.by["parts_availability"]["opens"] == 16


# ------------------------------------------------------------------------------------------------------ the five checks


@shows(
    "check-1-swallowed",
    *(f"check-1-swallowed:{one}" for one in ("threshold-one", "shorter-cooldown", "probe-timeout")),
    "check-1-swallowed:raise-at-the-boundary",
)
def test_check_1() -> None:
    """Only an exception at the boundary opens the breaker; whatever else is changed, 20 texts are 20 successes."""
    for found in always("check-1-swallowed", "threshold-one", "shorter-cooldown", "probe-timeout"):
        assert (found.offered, found.succeeded, found.attempts, found.opens) == (20, 20, 20, 0)
        assert found.goodput_per_s == 0.0
    right = run("check-1-swallowed:raise-at-the-boundary")
    assert (right.failed, right.rejected, right.attempts) == (3, 17, 3)
    assert right.states() == ["CLOSED", "OPEN"]


@shows(
    "check-2-threshold",
    *(f"check-2-threshold:{one}" for one in ("cooldown", "status-codes", "shared-state", "consecutive-count")),
)
def test_check_2() -> None:
    """290 failures of 300 leave it closed with any cooldown, kind of error or shared state; 30 in a row open it."""
    for found in always("check-2-threshold", "cooldown", "status-codes", "shared-state"):
        assert (found.offered, found.failed, found.succeeded, found.opens) == (300, 290, 10, 0)
        assert found.attempts == 300
    kinds = run("check-2-threshold:status-codes").trace.attempts.outcome.tolist()
    assert kinds.count(ATTEMPT_OUTCOMES.index("connection_error")) == 290
    shared = run("check-2-threshold:shared-state")
    assert {name: one["offered"] for name, one in shared.by.items()} == {"parts_availability": 150, "stock_lookup": 150}
    settings = [one.settings["context_name"] for one in shared.scenario.stack.functions.values()]
    assert settings == ["parts", "parts"]
    right = run("check-2-threshold:consecutive-count")
    assert (right.failed, right.rejected, right.opens, right.attempts) == (30, 270, 1, 30)


@shows(
    "check-3-replicas",
    *(f"check-3-replicas:{one}" for one in ("success-threshold-one", "shorter-probe-timeout", "one-context-name")),
    "check-3-replicas:shared-admission",
)
def test_check_3() -> None:
    """Four probes at once whatever is set on each replica, and one with an admission policy that they share."""
    for found in always("check-3-replicas", "success-threshold-one", "shorter-probe-timeout", "one-context-name"):
        assert found.concurrent_probes_peak == 4
        assert [found.states(replica)[-1] for replica in range(4)] == ["CLOSED"] * 4
    assert len(run("check-3-replicas").probe_ends()) == 24  # three failed and three successful ones on each
    assert len(run("check-3-replicas:success-threshold-one").probe_ends()) == 16
    ends = run("check-3-replicas:shorter-probe-timeout").trace.probes
    assert max(end - start for start, end in zip(ends.start, ends.end, strict=True)) == pytest.approx(0.5)
    assert run("check-3-replicas:one-context-name").trace.targets == ("parts",)
    right = run("check-3-replicas:shared-admission")
    assert right.concurrent_probes_peak == 1
    assert [right.states(replica)[-1] for replica in range(4)] == ["CLOSED"] * 4
    assert right.recovery_s is not None


@shows(
    "check-4-order",
    *(f"check-4-order:{one}" for one in ("timeout-then-breaker", "probe-timeout-alone", "caller-gives-up")),
    "check-4-order:breaker-then-timeout",
)
def test_check_4() -> None:
    """Five time-outs and two rejections with the breaker first; in the other order, or without a limit, it is deaf."""
    for found in always("check-4-order", "probe-timeout-alone"):
        assert (found.offered, found.unfinished, found.attempts, found.opens) == (7, 7, 7, 0)
    reverse = run("check-4-order:timeout-then-breaker")
    assert (reverse.timeouts, reverse.rejected, reverse.attempts, reverse.opens) == (7, 0, 7, 0)
    impatient = run("check-4-order:caller-gives-up")
    assert (impatient.cancelled, impatient.rejected, impatient.attempts, impatient.opens) == (7, 0, 7, 0)
    right = run("check-4-order:breaker-then-timeout")
    assert (right.timeouts, right.rejected, right.attempts, right.opens) == (5, 2, 5, 1)
    assert right.states() == ["CLOSED", "OPEN"]


CHECK_5 = "check-5-unavailable"


@shows(CHECK_5, f"{CHECK_5}:say-unavailable")
def test_check_5_right() -> None:
    """In the outage every answer says "unavailable" and brings its document, and only probes reach the service."""
    for found in always(CHECK_5, "say-unavailable"):
        asked = found.calls(11, 50, "research_assistant")
        assert [outcome for outcome, _, _ in asked] == ["unavailable"] * len(asked)
        assert found.attempts_at("maintenance_documents", 11, 50, "answered") >= len(asked)
        assert found.attempts_at("parts_availability", 11, 50) == 2  # the probes at 25 s and 40 s
        assert found.answered(56, 60) == 1.0
        assert found.invented_answers == 0


@shows(f"{CHECK_5}:retry-at-once")
def test_check_5_retry_at_once() -> None:
    """Asking again at once makes three rejections of one, and the documents are not searched."""
    found = run(f"{CHECK_5}:retry-at-once")
    asked = found.calls(11, 50, "research_assistant")
    assert {outcome for outcome, _, _ in asked} == {"rejected"}
    rejected = [call for at, *_, call, _ in found.trace.rejections.rows() if 26 <= at < 40]
    assistant = found.trace.functions.index("research_assistant")
    mine = [call for call in rejected if found.trace.calls.function[call] == assistant]
    assert len(mine) == 3 * len(set(mine)) > 0
    assert found.attempts_at("maintenance_documents", 11, 50) == 0


@shows(f"{CHECK_5}:other-name")
def test_check_5_other_name() -> None:
    """Under another name the service is as unavailable, and gets five more failing calls before that breaker opens."""
    found = run(f"{CHECK_5}:other-name")
    assert {outcome for outcome, _, _ in found.calls(12, 50, "research_assistant")} == {"unavailable"}
    assert found.attempts_at("parts_availability", 10, 12) == 10
    assert run(CHECK_5).attempts_at("parts_availability", 10, 12) == 5
    assert found.states(0, "parts_availability")[:2] == found.states(0, "stock_lookup")[:2] == ["CLOSED", "OPEN"]


@shows(f"{CHECK_5}:cached-counts")
def test_check_5_cached_counts() -> None:
    """Every answer in the outage states a count that no live reply gave, and none of them is a live answer."""
    found = run(f"{CHECK_5}:cached-counts")
    asked = found.calls(11, 50, "research_assistant")
    assert {outcome for outcome, _, _ in asked} == {"succeeded"}
    assert {useful for _, _, useful in asked} == {0}
    assert found.invented_answers >= len(asked) == 156


# -------------------------------------------------------------------------------------------------------- the six traps


@shows("trap-retry-on-open", "trap-retry-on-open:wrong", "trap-retry-on-open:right")
def test_trap_retry_on_open() -> None:
    """Asking an open breaker again at once gives three rejections a call, and no answer while it is open."""
    wrong, right = run("trap-retry-on-open:wrong"), run("trap-retry-on-open:right")
    assert right.rejections == right.rejected == 300
    assert wrong.rejected == 303
    assert 895 <= wrong.rejections <= 909
    for found in (wrong, right):
        assert found.answered(6, 35) == 0.0
    assert run("trap-retry-on-open").rejections == 300


@shows("trap-cooldown-is-recovery", "trap-cooldown-is-recovery:wrong", "trap-cooldown-is-recovery:right")
def test_trap_cooldown_is_recovery() -> None:
    """A batch sent when the cooldown is over is turned away whole; after the repair all of it is answered."""
    for name in ("trap-cooldown-is-recovery", "trap-cooldown-is-recovery:wrong"):
        wrong = run(name).by["batch"]
        assert (wrong["offered"], wrong["rejected"], wrong["succeeded"]) == (100, 100, 0)
    right = run("trap-cooldown-is-recovery:right")
    assert (right.by["batch"]["offered"], right.by["batch"]["succeeded"]) == (100, 100)
    assert right.probe_ends() == ["failed", "failed", "succeeded"]
    assert [at for at, state in right.changes() if state == "OPEN"] == [7.05, 38.05, 69.05]
    assert right.changes()[-1] == (100.05, "CLOSED")


@shows("trap-consecutive-is-rate", "trap-consecutive-is-rate:wrong", "trap-consecutive-is-rate:right")
def test_trap_consecutive_is_rate() -> None:
    """80 failures a minute leave a threshold of 30 in a row alone; a breaker that counts over a minute opens at 30."""
    for name in ("trap-consecutive-is-rate", "trap-consecutive-is-rate:wrong"):
        found = run(name)
        assert (found.offered, found.failed, found.opens) == (600, 400, 0)
        assert found.scenario.semantics == "toolkit"
    right = run("trap-consecutive-is-rate:right")
    assert right.scenario.semantics == "azure"
    opened = right.changes()[1]
    assert opened == (21.75, "OPEN")
    assert right.attempts_at("parts_availability", 0, 21.76, "error") == 30


@shows("trap-probe-timeout-is-limit", "trap-probe-timeout-is-limit:wrong", "trap-probe-timeout-is-limit:right")
def test_trap_probe_timeout_is_limit() -> None:
    """A probe timeout bounds neither ordinary calls nor whole streams; a timeout behind the breaker bounds both."""
    for name in ("trap-probe-timeout-is-limit", "trap-probe-timeout-is-limit:wrong"):
        wrong = run(name)
        assert [outcome for outcome, _, _ in wrong.calls(0, 20)] == ["unfinished"] * 5
        assert times(wrong, 20, 60) == [("succeeded", 6.0)] * 5
    right = run("trap-probe-timeout-is-limit:right")
    assert times(right, 0, 60) == [("timeout", 2.0)] * 10


@shows("trap-one-instance-is-deployment", *(f"trap-one-instance-is-deployment:{one}" for one in ("wrong", "right")))
def test_trap_one_instance_is_deployment() -> None:
    """A threshold of 20 is 80 failures on four replicas, and 5 is 20."""
    for name in ("trap-one-instance-is-deployment", "trap-one-instance-is-deployment:wrong"):
        assert (run(name).failed, run(name).opens) == (80, 4)
    first, *_, last = sorted(run("trap-one-instance-is-deployment").changes(one)[1][0] for one in range(4))
    assert first < last
    right = run("trap-one-instance-is-deployment:right")
    assert (right.failed, right.opens) == (20, 4)
    assert {replica: right.trace.attempts.replica.tolist().count(replica) for replica in range(4)} == dict.fromkeys(
        range(4), 15
    )


@shows("trap-error-strings", "trap-error-strings:wrong", "trap-error-strings:right")
def test_trap_error_strings() -> None:
    """Twenty error strings are twenty successes and CLOSED; an adapter that raises opens it at the third."""
    for name in ("trap-error-strings", "trap-error-strings:wrong"):
        wrong = run(name)
        assert (wrong.succeeded, wrong.attempts, wrong.opens, wrong.goodput_per_s) == (20, 20, 0, 0.0)
        assert set(wrong.trace.attempts.outcome) == {ATTEMPT_OUTCOMES.index("error_shaped_string")}
    right = run("trap-error-strings:right")
    assert (right.failed, right.rejected, right.attempts, right.opens) == (3, 17, 3, 1)


# --------------------------------------------------------------------------------------------- where the breaker stands


@shows("scope-tool-or-assistant", *(f"scope-tool-or-assistant:{one}" for one in ("around-the-tool",)))
def test_scope_tool() -> None:
    """Around the tool: every question of the outage is answered from the documents."""
    for found in always("scope-tool-or-assistant", "around-the-tool"):
        outage = found.calls(11, 40, "research_assistant")
        assert {outcome for outcome, _, _ in outage} == {"unavailable", "succeeded"}
        assert found.attempts_at("maintenance_documents", 11, 40, "answered") == len(outage) == 319
        assert found.trace.targets == ("parts_availability",)


@shows("scope-tool-or-assistant:around-the-assistant")
def test_scope_assistant() -> None:
    """Around the assistant: the healthy documents go dark, and a question about them closes the breaker too soon."""
    found = run("scope-tool-or-assistant:around-the-assistant")
    assert found.attempts_at("maintenance_documents", 11, 30) == 0
    assert {outcome for outcome, _, _ in found.calls(11, 20)} == {"rejected"}
    closed = [at for at, state in found.changes() if state == "CLOSED"][1]
    assert 30 < closed < 31
    assert found.by["maintenance_documents"]["rejected"] == 0  # nobody is told that it is they who are missing


@shows("order-breaker-timeout", "order-breaker-timeout:breaker-first", "order-breaker-timeout:timeout-first")
def test_order() -> None:
    """Breaker first: 5 time-outs, 2 rejections, 5 calls of the service, OPEN; timeout first: 7, 0, 7, CLOSED."""
    for found in always("order-breaker-timeout", "breaker-first"):
        assert (found.timeouts, found.rejected, found.attempts) == (5, 2, 5)
        assert found.states() == ["CLOSED", "OPEN"]
    other = run("order-breaker-timeout:timeout-first")
    assert (other.timeouts, other.rejected, other.attempts) == (7, 0, 7)
    assert other.states() == ["CLOSED"]


@shows("retry-inside-or-outside", *(f"retry-inside-or-outside:retry-{one}" for one in ("outside", "inside")))
def test_retry() -> None:
    """Retry outside opens a threshold of 3 after 3 attempts of one call, retry inside after 9 of three."""
    for found in always("retry-inside-or-outside", "retry-outside"):
        assert (found.attempts, found.admitted, found.opens, found.rejected) == (3, 1, 1, 4)
    inside = run("retry-inside-or-outside:retry-inside")
    assert (inside.attempts, inside.admitted, inside.opens, inside.rejected) == (9, 3, 1, 2)


@shows("name-collision", "name-collision:own-names")
def test_name_collision() -> None:
    """Under one name the documents are rejected for the parts' failures; with their own they are all answered."""
    found = run("name-collision")
    assert found.trace.targets == ("search",)
    documents = found.by["maintenance_documents"]
    assert documents["rejected"] == documents["offered"] - documents["succeeded"] == 60
    assert documents["failed"] == 0
    apart = run("name-collision:own-names")
    assert apart.by["maintenance_documents"]["succeeded"] == apart.by["maintenance_documents"]["offered"] == 120
    assert apart.by["parts_availability"]["rejected"] == 600


# -------------------------------------------------------------------------------------------------------------- streams


@shows("stream-probe-limit", "stream-probe-limit:late-chunk", "stream-probe-limit:busy-reader")
def test_stream_probe_limit() -> None:
    """A probe's limit is kept for each chunk: 6 s in all pass, a wait of 2.5 s does not, a reader's time is its own."""
    found = run("stream-probe-limit")
    assert times(found, 15, 18) == [("succeeded", 6.0), ("rejected", 0.0)]
    assert found.changes()[-1] == (21.0, "CLOSED")
    late = run("stream-probe-limit:late-chunk")
    assert times(late, 15, 16) == [("timeout", 2.0)]
    assert late.changes()[-1] == (17.0, "OPEN")
    busy = run("stream-probe-limit:busy-reader")
    assert times(busy, 15, 16) == [("succeeded", 26.0)]
    assert busy.probe_ends() == ["succeeded"]
    assert [outcome for outcome, _, _ in busy.calls(17, 30)] == ["rejected", "rejected"]


@shows("stream-whole-limit", "stream-whole-limit:quicker-chunks", "stream-whole-limit:timeout-outside")
def test_stream_whole_limit() -> None:
    """A timeout ends the stream 5 s after its beginning, which counts behind the breaker and not before it."""
    found = run("stream-whole-limit")
    assert times(found, 0, 50) == [
        *[("timeout", 5.0)] * 3,
        *[("rejected", 0.0)] * 2,
    ]
    assert found.states() == ["CLOSED", "OPEN"]
    quick = run("stream-whole-limit:quicker-chunks")
    assert times(quick, 0, 50) == [("succeeded", 4.0)] * 5
    outside = run("stream-whole-limit:timeout-outside")
    assert (outside.timeouts, outside.rejected, outside.opens) == (5, 0, 0)


@shows("stream-slow-consumer", "stream-slow-consumer:quick-reader", "stream-slow-consumer:longer-limit")
def test_stream_slow_consumer() -> None:
    """A reader's own slowness runs out a whole-stream limit and opens the breaker of a healthy service."""
    found = run("stream-slow-consumer")
    assert [outcome for outcome, _, _ in found.calls(0, 50)] == ["timeout"] * 3 + ["rejected"] * 2
    assert {took for outcome, took, _ in found.calls(0, 50) if outcome == "timeout"} == {6.15}  # the pull after 5 s
    assert (found.opens, found.false_opens) == (1, 1)
    for better in ("quick-reader", "longer-limit"):
        assert (run(f"stream-slow-consumer:{better}").succeeded, run(f"stream-slow-consumer:{better}").opens) == (5, 0)


@shows("stream-early-break", "stream-early-break:read-to-the-end")
def test_stream_early_break() -> None:
    """A stream left early neither resets the count nor closes the breaker, and frees the probe's slot at once."""
    found = run("stream-early-break")
    assert found.changes() == [(0.0, "CLOSED"), (3.05, "OPEN"), (14.0, "HALF_OPEN"), (16.2, "CLOSED")]
    assert found.probe_ends() == ["cancelled", "succeeded"]
    assert found.cancelled == 2
    whole = run("stream-early-break:read-to-the-end")
    assert (whole.failed, whole.opens, whole.cancelled) == (3, 0, 0)


# ------------------------------------------------------------------------------------------------- what counts, and how


STORM = "cancellation-storm"


@shows(STORM, f"{STORM}:limit-first")
def test_cancellation_storm() -> None:
    """200 cancelled calls in a row count for nothing; a limit that runs out before the callers do opens the breaker."""
    found = run(STORM)
    assert (found.cancelled, found.attempts, found.opens) == (200, 600, 0)
    first = run(f"{STORM}:limit-first")
    assert first.cancelled == 0
    assert first.timeouts == 10
    assert first.changes()[1] == (5.9, "OPEN")


@shows(f"{STORM}:foreign-slot", f"{STORM}:guarded")
def test_cancellations_and_the_slot() -> None:
    """As in the toolkit, the callers of an earlier period free a probe's slot; the guarded breaker keeps it."""
    toolkit, guarded = run(f"{STORM}:foreign-slot"), run(f"{STORM}:guarded")
    assert toolkit.trace.replicas == guarded.trace.replicas == 1
    assert toolkit.concurrent_probes_peak > 10
    assert guarded.concurrent_probes_peak == 1


@shows("consecutive-or-window", "consecutive-or-window:interval", "consecutive-or-window:rate")
def test_consecutive_or_window() -> None:
    """290 failures of 300 leave the consecutive count alone; 30 in an interval, or a rate over 20 calls, open it."""
    found = run("consecutive-or-window")
    assert (found.offered, found.failed, found.succeeded, found.attempts) == (300, 290, 10, 300)
    assert found.states() == ["CLOSED"]
    interval, rate = run("consecutive-or-window:interval"), run("consecutive-or-window:rate")
    assert (interval.failed, interval.succeeded, interval.opens) == (30, 1, 1)
    assert (rate.attempts, rate.opens) == (20, 1)
    assert [one.scenario.semantics for one in (found, interval, rate)] == ["toolkit", "azure", "azure"]


@shows("business-rejections", "business-rejections:counted", "business-rejections:not-counted")
def test_business_rejections() -> None:
    """Raised, five unknown parts open the breaker of a service without a fault; returned, all calls are answered."""
    for found in always("business-rejections", "counted"):
        assert (found.false_opens, found.rejected, found.failed) == (1, 5, 5)
        assert found.trace.faults == ()
        assert found.trace.attempts.outcome.tolist().count(ATTEMPT_OUTCOMES.index("rejected")) == 5
    right = run("business-rejections:not-counted")
    assert (right.opens, right.succeeded, right.offered) == (0, 15, 15)


@shows("swallowed-exceptions", "swallowed-exceptions:raised")
def test_swallowed_exceptions() -> None:
    """Swallowed, an outage is 600 successes and no answer; raised, it is two probes and rejections."""
    found = run("swallowed-exceptions")
    assert (found.succeeded, found.failed, found.rejected, found.opens) == (600, 0, 0, 0)
    assert found.answered(10, 40) == 0.0
    assert found.attempts_at("parts_availability", 10, 40) == 300
    raised = run("swallowed-exceptions:raised")
    assert raised.attempts_at("parts_availability", 10, 40) == 5 + 2  # what opened it, and two probes
    assert raised.states()[:2] == ["CLOSED", "OPEN"]


@shows("open-breaker-retries", *(f"open-breaker-retries:{one}" for one in ("gives-up", "retry-in-the-stack")))
def test_open_breaker_retries() -> None:
    """Three tries against an open breaker waste 6 s each; whoever knows its exception wastes none."""
    found = run("open-breaker-retries")
    waited = found.calls(6, 60)
    assert {(outcome, took) for outcome, took, _ in waited} == {("rejected", 6.0)}
    assert found.rejections > 3 * len(waited) - 1
    for better in ("gives-up", "retry-in-the-stack"):
        other = run(f"open-breaker-retries:{better}")
        assert set(times(other, 6, 60)) == {("rejected", 0.0)}
        assert other.answered(0, 60) == found.answered(0, 60)


@shows("long-hang", "long-hang:with-timeout")
def test_long_hang() -> None:
    """Without a limit 50 hangs hold all workers for good; with one the service answers again after the repair."""
    found = run("long-hang")
    assert (found.unfinished, found.in_flight_peak) == (50, 50)
    assert found.answered(25, 60) == 0.0
    assert found.timeouts == 0
    limited = run("long-hang:with-timeout")
    assert limited.unfinished == 0
    assert limited.answered(28, 60) == 1.0
    assert limited.recovery_s < 2


@shows("retrip", "retrip:bulkhead", "retrip:ramp")
def test_retrip() -> None:
    """The full traffic trips what has just recovered; a bulkhead, or traffic that returns slowly, does not."""
    found = run("retrip")
    assert found.retrips >= 2
    assert found.timeouts > 100
    for better in ("bulkhead", "ramp"):
        assert (run(f"retrip:{better}").retrips, run(f"retrip:{better}").timeouts) == (0, 0)
        assert run(f"retrip:{better}").states().count("CLOSED") == 2
    assert run("retrip:bulkhead").goodput_per_s > found.goodput_per_s
    assert run("retrip:bulkhead").in_flight_peak == 25
    assert run("retrip:ramp").answered(52, 120) == 1.0


@shows("thundering-probe", "thundering-probe:four-replicas", "thundering-probe:limited-number")
def test_thundering_probe() -> None:
    """Of 1,000 callers after the cooldown exactly 1 is admitted, 4 by four replicas, 10 where ten are allowed."""
    for name, admitted in (("", 1), (":four-replicas", 4), (":limited-number", 10)):
        found = run(f"thundering-probe{name}")
        crowd = [outcome for outcome, _, _ in found.calls(40, 41)]
        assert len(crowd) == 1000
        assert (crowd.count("succeeded"), crowd.count("rejected")) == (admitted, 1000 - admitted)
        assert found.attempts_at("parts_availability", 40, 41) == admitted
        assert len(found.probe_ends()) == found.concurrent_probes_peak == admitted


@shows("retry-budget", "retry-budget:budget", "retry-budget:no-retry")
def test_retry_budget() -> None:
    """Retries keep the service overloaded after its cause is gone; with a budget, or without retries, it recovers."""
    found = run("retry-budget")
    assert found.answered(26, 55) == 0.0
    assert found.attempts_at("parts_availability", 30, 50) == pytest.approx(20 * 210, rel=0.02)
    budget = run("retry-budget:budget")
    assert budget.answered(35, 60) == 1.0
    assert budget.attempts <= 1.1 * budget.offered + 10
    assert run("retry-budget:no-retry").answered(35, 60) == 1.0


# --------------------------------------------------------------------------------- callers that try again by themselves


CALLER = """\
scenario: {duration: 10}
services: {parts_availability: {_type: parts_availability, latency: 0.5, faults: [{from: 0, to: 5, fault: error}]}}
functions: {parts_availability: {_type: parts_availability}}
workload:
  - {function: parts_availability, at: [0], retry_waits: [1, 4]}
"""


def test_a_caller_tries_again_after_its_own_waits() -> None:
    """A load's `retry_waits` are waits between tries of one call, which ends as the last of them does."""
    trace = run_scenario(load_scenario(CALLER))
    assert list(trace.attempts.start) == [0.0, 1.5, 6.0]
    assert list(trace.attempts.call) == [0, 0, 0]
    assert CALL_OUTCOMES[trace.calls.outcome[0]] == "succeeded"
    assert list(trace.calls.end) == [6.5]


def test_a_caller_that_tries_again_has_a_patience_for_all_of_it() -> None:
    """The patience of a caller covers its waits and further tries."""
    trace = run_scenario(load_scenario(CALLER.replace("retry_waits", "patience: 3, retry_waits")))
    assert CALL_OUTCOMES[trace.calls.outcome[0]] == "cancelled"
    assert list(trace.calls.end) == [3.0]


def test_a_stream_is_not_tried_again() -> None:
    """`retry_waits` beside `mode: stream`, or a wait that is no number of seconds, is one sentence."""
    with pytest.raises(ConfigError, match="'retry_waits' of workload entry 1 is for single calls"):
        load_scenario(CALLER.replace("retry_waits", "mode: stream, retry_waits"))
    with pytest.raises(
        ConfigError, match=r"an entry of 'retry_waits' of workload entry 1 is -1; allowed: a list of seconds"
    ):
        load_scenario(CALLER.replace("[1, 4]", "[-1]"))
