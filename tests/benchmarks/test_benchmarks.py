"""Every case of the benchmarks does what it claims, in small; nothing here is timed."""

from __future__ import annotations

import asyncio
import json
import platform
import sys

import pytest

from benchmarks import (
    breaker,
    explorers,
    import_time,
    measure,
    memory,
    peers,
    pictures,
    retry,
    run,
    scenarios,
    stack,
    virtual_time,
)

# hyx asks for the time in a way that Python discourages; a peer's manners are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TINY = measure.Effort(rounds=3, block=0.0002, runs=2, starts=2, targets=200, rejections=500, requests=2000)
# No call arrives in the instant in which another is cut off: who comes first then is for each to say.
SHORT = virtual_time.Traffic(rate=37.0, seconds=20.0, outage=(4.0, 12.0), cooldown=3.0)

BREAKERS = {"labkit": breaker.labkit_guarded, **peers.BREAKERS, peers.TOOLKIT: peers.toolkit_guarded}
RETRIES = {"labkit": retry.labkit_retry, **peers.RETRIES}


APART = (virtual_time.NAME, scenarios.NAME, pictures.NAME, explorers.NAME)  # they have tests of their own


def made(maker, *args):
    """What a maker gives, or a skip that names what is missing."""
    try:
        return maker(*args)
    except ImportError as problem:
        pytest.skip(f"not installed here: {problem.name}")


# -- the workloads


@pytest.mark.parametrize("name", BREAKERS)
def test_a_breaker_counts_what_it_is_said_to_count(name):
    """Each breaker hands on a result without counting it, and hands on an error and counts it."""

    async def main():
        await breaker.check_success(name, made(BREAKERS[name], breaker.service, breaker.OUT_OF_REACH))
        await breaker.check_failure(name, made(BREAKERS[name], breaker.down, breaker.OUT_OF_REACH))

    asyncio.run(main())


@pytest.mark.parametrize("name", BREAKERS)
def test_a_rejection_is_one(name):
    """Each breaker that has opened raises its own error and does not call the service."""
    calls = []

    async def counting(value):
        calls.append(value)
        raise ConnectionError("down")

    async def main():
        await breaker.open_up(name, made(BREAKERS[name], counting, 1), calls)

    asyncio.run(main())
    assert len(calls) == 1


def test_a_breaker_that_does_not_count_is_found_out():
    """The checks before the timing are able to fail."""

    async def main():
        naive = peers.Breaker(breaker.wrapped(breaker.down), peers._count(lambda: 0), RuntimeError)
        with pytest.raises(AssertionError, match="naive did not count"):
            await breaker.check_failure("naive", naive)

    asyncio.run(main())


@pytest.mark.parametrize("name", RETRIES)
def test_a_retry_retries(name):
    """Each retry calls a function that fails twice three times, and hands on its answer."""
    made(RETRIES[name], breaker.service)
    asyncio.run(retry.check([name]))


@pytest.mark.parametrize(("name", "attempts"), [("labkit", 3), (peers.TOOLKIT, 1)])
def test_a_stack_limits_counts_and_retries(name, attempts):
    """A service that hangs is cut off as often as it is tried, and then no longer called."""
    build = stack.labkit_chain if name == "labkit" else stack.theirs
    made(build, stack.suspends)
    asyncio.run(stack.check_stack(name, build, attempts))


def test_memory_is_counted_by_target():
    """Nothing is kept for a target that never failed, something, but little, for one that did."""

    async def main():
        clean = await memory.bytes_a_target(memory.labkit_breaker, memory.labkit_context, 1000, False)
        failed = await memory.bytes_a_target(memory.labkit_breaker, memory.labkit_context, 1000, True)
        return clean, failed

    clean, failed = asyncio.run(main())
    assert clean < 1
    assert 1 < failed <= 160


def test_rejections_leave_nothing_behind():
    """A few thousand rejections do not grow what is held."""
    grown, most = asyncio.run(memory.growth_over_rejections(3000))
    assert grown <= memory.FLAT
    assert most <= memory.FLAT


@pytest.mark.parametrize(
    "name",
    [
        virtual_time.SIMPY,
        virtual_time.SIMPY_LEAN,
        virtual_time.VIRTUAL_LOOP,
        virtual_time.SELECTOR_LOOP,
        virtual_time.LOOPTIME,
    ],
)
def test_every_way_to_simulate_gives_the_same_numbers(name):
    """Attempts, answers, rejections and openings are those of VirtualClock, whoever simulates."""
    simulate = virtual_time.variants().get(name)
    if simulate is None:
        pytest.skip(f"not installed here: {name}")
    truth = virtual_time.on_virtual_clock(SHORT, listen=True)
    assert virtual_time.alike(truth, simulate(SHORT), virtual_time.slack(name, truth))


def test_the_outage_is_one():
    """The traffic opens the breaker, loses no call, and is answered again afterwards."""
    counts = virtual_time.on_virtual_clock(SHORT, listen=True)
    assert counts.opens >= 2
    assert counts.rejected > 100
    assert counts.answered + counts.rejected + counts.failed == SHORT.calls
    calm = virtual_time.Traffic(rate=40.0, seconds=20.0, outage=(0.0, 0.0))
    assert virtual_time.on_virtual_clock(calm, listen=True) == virtual_time.Counts(800, 800, 0, 0, 0)


def test_different_numbers_are_not_alike():
    """Two counts that differ by more than is allowed are told apart."""
    one = virtual_time.Counts(1000, 900, 100, 0, 2)
    assert virtual_time.alike(one, virtual_time.Counts(1000, 900, 100, 0))
    assert not virtual_time.alike(one, virtual_time.Counts(1001, 900, 100, 0))
    assert virtual_time.alike(one, virtual_time.Counts(1001, 900, 100, 0), 1)
    assert not virtual_time.alike(one, virtual_time.Counts(1000, 900, 100, 0, 4), 1)
    assert virtual_time.slack(virtual_time.SIMPY, one) == 0


def test_importing_labkit_brings_nothing_heavy():
    """Of what a learner's start must not pay for, `import labkit` brings none."""
    names = import_time.brought()
    assert "labkit" in names
    assert not set(import_time.NOT_WANTED) & set(names)


@pytest.mark.parametrize(("rate", "duration"), [(19.0, 60.0), (37.0, 120.0)])
def test_the_scenario_in_simpy_is_the_same_one(rate, duration):
    """With a constant latency, and no two events at one instant, simpy's numbers are labkit's to the last attempt."""
    pytest.importorskip("simpy")
    constant = scenarios.decision(rate=rate, duration=duration, latency=0.053)
    assert scenarios.by_labkit(constant)["opens"] >= scenarios.REPLICAS
    assert scenarios.apart(constant) == {}
    assert scenarios.apart(scenarios.decision(rate=rate, duration=duration), 0.005) == {}


def test_scenarios_that_differ_are_found_out():
    """The comparison with simpy is able to fail."""
    pytest.importorskip("simpy")
    without_ties = scenarios.decision(rate=19.0, duration=60.0, latency=0.053)
    other = without_ties.with_values({"middleware.three_attempts.jitter": "full"})  # which the simulation does not draw
    assert scenarios.apart(other.with_values({"failure_threshold": 500})) != {}


def test_the_section_on_scenarios_prints_every_promise():
    """Small scenarios run from start to end, the sweep on two processes included, and each promise has its line."""
    section = scenarios.run(TINY, scenarios.decision(rate=20.0, duration=60.0))
    printed = run.table(section)
    for promise in (
        "the decision scenario, ms",
        "four times the rate",
        "cost a request",
        "a sweep's gain from a second core",
    ):
        assert promise in printed
    assert scenarios.SIMPY in section.samples or "simpy" in printed


# -- the measuring


def test_rounds_are_interleaved_and_begin_with_another_case_each():
    """Every case runs once a round, and no case is always the first."""
    order = []
    samples = measure.interleave({name: lambda name=name: order.append(name) for name in "abc"}, 3)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"  # once to warm up, then three rounds
    assert [len(figures) for figures in samples.of.values()] == [3, 3, 3]


def test_ratios_are_of_medians_and_of_rounds():
    """Both ratios are computed as the table says, over all and over what each adds to a third."""
    samples = measure.Samples(["mine", "theirs", "bare"])
    samples.of.update(mine=[2.0, 4.0, 9.0], theirs=[4.0, 5.0, 6.0], bare=[1.0, 1.0, 2.0])
    assert samples.ratio("mine", "theirs") == (4 / 5, 4 / 5)
    assert samples.ratio("mine", "theirs", less="bare") == (3 / 4, 3 / 4)
    assert samples.difference("mine", "bare") == (3.0, 3.0)


@pytest.mark.parametrize(
    ("found", "at_least", "verdict"),
    [
        ((1.0, 1.4), False, "within"),
        ((1.3, 1.41), False, "over"),
        ((1.4, 5.0), True, "within"),
        ((1.3, 5.0), True, "under"),
    ],
)
def test_a_promise_holds_only_if_both_figures_keep_it(found, at_least, verdict):
    """A ratio that keeps its limit in one way of computing it and not in the other does not hold."""
    bound = measure.Bound("a promise", found, 1.4, at_least=at_least)
    assert bound.verdict == verdict
    assert bound.holds is (verdict == "within")


# -- the command


@pytest.fixture
def tiny(monkeypatch):
    """`--quick` is as small as it can be."""
    monkeypatch.setattr(run, "QUICK", TINY)


@pytest.mark.parametrize("name", [name for name in run.SECTIONS if name not in APART])
def test_a_section_prints_its_table_and_every_promise(name, tiny, capsys):
    """Each section runs from start to end, and says whether what is promised holds, or why it cannot say."""
    assert run.main(["--quick", "--only", name]) == 0
    printed = capsys.readouterr().out
    assert f"\n{name}: " in printed
    assert "labkit" in printed
    assert "promises hold" in printed
    assert any(verdict in printed for verdict in ("within", "over", "under", "not judged here"))


def test_the_simulations_print_their_table():
    """The section on virtual time finds all variants alike before it times them."""
    section = virtual_time.run(TINY, SHORT)
    printed = run.table(section)
    assert virtual_time.KERNEL in printed
    assert "All agree on" in printed
    assert len(section.samples[virtual_time.KERNEL]) == TINY.runs


def test_a_hand_s_moves_are_told_by_slider_and_by_part():
    """The section on explorers gives the median and the ninth tenth of what the page and the kernel noted."""
    names = [name for name, _, _ in explorers.PARTS]
    moves = [
        {
            "input": 100.0 * n,
            "changed": 100.0 * n + 40,
            "painted": 100.0 * n + 50 + n,
            "parts": dict.fromkeys(names, 3.0),
        }
        for n in range(16)
    ]
    section = measure.Section(explorers.NAME, "", ("ms", "median", "9 of 10", "most"))
    explorers.tell(section, moves, 16)
    figures = {row.name.strip(): row.figures for row in section.rows if row.figures}
    assert figures["from the move to the pixels"] == ("57.5", "64.3", "65.0")
    assert figures["failure_threshold"][0] == "51.5"
    assert figures["the run"][0] == "3.0"
    assert figures["on the way to the kernel and back, and into the page"][0] == "37.0"
    assert [bound.holds for bound in section.bounds] == [True, True]


def test_without_a_browser_the_hand_is_passed_over(monkeypatch):
    """Where there is no Chromium the section says so by name, and promises nothing."""
    monkeypatch.setattr("tools.browser.find_chromium", lambda: None)
    section = explorers.run(TINY)
    assert (section.rows, section.bounds) == ([], [])
    assert "follow-the-hand: skipped, no Chromium was found" in section.notes[0]
    assert "skipped" in run.table(section)


def test_pictures_print_their_table():
    """The section on pictures finds every redraw sound and new before it times them, beside matplotlib's ways."""
    runs = pictures.runs(rate=20.0, seconds=30.0)
    section = pictures.run(TINY, runs, calls=600)
    printed = run.table(section)
    for name in (pictures.REDRAW, pictures.FINE, pictures.SVG, pictures.FIGURE, pictures.MOVED):
        assert name in printed
    assert [bound.limit for bound in section.bounds] == list(pictures.LIMITS.values())


def test_a_redraw_of_the_same_data_is_found_out():
    """The checks before the timing are able to fail: equal pictures, and runs of another size."""
    one, *_ = pictures.runs(rate=20.0, seconds=30.0)
    with pytest.raises(AssertionError, match="two redraws gave the same picture"):
        pictures.check((one, one), 600)
    with pytest.raises(AssertionError, match="a run has 600 calls where 601 were due"):
        pictures.check((one,), 601)


def test_figures_of_two_pythons_share_a_file(tiny, tmp_path, capsys):
    """`--json` adds this Python's figures and leaves another's alone."""
    out = tmp_path / "figures.json"
    out.write_text('{"3.99.0": {"sections": []}}', encoding="utf-8")
    assert run.main(["--quick", "--only", "retry", "--json", str(out)]) == 0
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["3.99.0"] == {"sections": []}
    (section,) = data[platform.python_version()]["sections"]
    assert section["name"] == "retry"
    assert len(section["samples"]["labkit"]) == TINY.rounds
    assert {row["name"] for row in section["rows"]} >= {"labkit", retry.BARE}
    assert all(isinstance(bound["holds"], bool) for bound in section["bounds"])


def test_a_missing_peer_is_named_and_no_error(tiny, monkeypatch, capsys):
    """A peer that is not installed is named as such; the others are measured."""
    monkeypatch.setitem(sys.modules, "hyx.retry", None)
    for module in (peers, run):
        monkeypatch.setattr(module, "installed", lambda package: None if package == "hyx" else "1.0")
    assert run.main(["--quick", "--only", "retry"]) == 0
    printed = capsys.readouterr().out
    assert "not installed: hyx" in printed
    assert "hyx is not installed; not measured." in printed
    assert "backoff 1.0" in printed


def test_a_case_that_does_not_do_what_it_claims_is_not_timed(tiny, monkeypatch, capsys):
    """A wrong case ends its section with a sentence and the command with 1."""
    monkeypatch.setattr(retry, "labkit_retry", lambda function: function)
    with pytest.raises(ConnectionError):
        asyncio.run(retry.check(["labkit"]))

    async def wrong(names):
        raise AssertionError("labkit made 1 attempts where 3 were due")

    monkeypatch.setattr(retry, "check", wrong)
    assert run.main(["--quick", "--only", "retry"]) == 1
    assert "retry: not measured, because a case does not do what it claims: labkit made 1" in capsys.readouterr().out
