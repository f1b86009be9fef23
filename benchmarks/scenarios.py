"""Whole scenarios: the lesson's decision beside a simulation in simpy, how cost grows with traffic, and a sweep on two
cores.

The simulation does the same work, as one would write it for simpy: a process a request, workers as a `Resource`, an
attempt is `answer | limit`, four small breakers with the same rules. It records what a labkit run records, and the same
metrics are computed from it. Before anything is timed, the numbers of both must agree: to the last attempt where the
latency is constant, and to within a few where it is drawn at random, since each draws its own.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from array import array
from collections.abc import Callable
from math import ceil, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import Bound, Effort, Row, Samples, Section, clock, interleave
from benchmarks.peers import missing
from labkit.scenario import Scenario, load_scenario, metrics, run_scenario, sweep
from labkit.scenario.run.trace import (
    ATTEMPT_OUTCOMES,
    CALL_OUTCOMES,
    PROBE_OUTCOMES,
    STATES,
    Attempts,
    Calls,
    FaultPeriod,
    Probes,
    Rejections,
    Trace,
    Transitions,
    column,
)

NAME = "scenarios"
DECISION = "decision: 24,000 requests, 4 replicas"
SIMPY = "the same in simpy, a process a request"
FOURFOLD = "four times the rate: 96,000 requests"
REPLICAS = 4
LATENCY = {"distribution": "lognormal", "median": 0.05, "sigma": 0.3}
COMPARED = ("offered", "admitted", "rejected", "succeeded", "failed", "unavailable", "unfinished", "attempts")
COMPARED += ("attempts_per_s_peak", "in_flight_peak", "time_to_open_s", "opens", "probes", "rejections")


def decision(
    *, rate: float = 80.0, duration: float = 300.0, latency: Any = LATENCY, begin: float = 0.2, end: float = 0.6
) -> Scenario:
    """The lesson's decision scenario, its service with workers and a queue; the outage from and to a share of it."""
    values = {
        "workload.0.rate": rate,
        "scenario.duration": duration,
        "services.parts_availability.latency": latency,
        "services.parts_availability.workers": ceil(rate * 2.5),
        "services.parts_availability.queue": ceil(rate * 1.25),
        "services.parts_availability.faults": [
            {"from": duration * begin, "to": duration * end, "fault": "hang"},
        ],
    }
    return load_scenario("decision", values=values)


def by_labkit(scenario: Scenario) -> dict[str, Any]:
    found: dict[str, Any] = metrics(run_scenario(scenario))["all"]
    return found


# -- simpy


SUCCEEDED, UNAVAILABLE = CALL_OUTCOMES.index("succeeded"), CALL_OUTCOMES.index("unavailable")
ANSWERED, CUT_OFF, OVERLOADED = (ATTEMPT_OUTCOMES.index(name) for name in ("answered", "cancelled", "overloaded"))
CLOSED, OPEN, HALF_OPEN = range(len(STATES))
WELL, BADLY = PROBE_OUTCOMES.index("succeeded"), PROBE_OUTCOMES.index("failed")


class Breaker:
    """The rules of the toolkit's breaker, as one would write them for a simulation."""

    def __init__(self, replica: int, settings: Any, changes: list[array[Any]]) -> None:
        self.replica = replica
        self.threshold = settings.failure_threshold
        self.cooldown = settings.cooldown_period
        self.wanted = settings.half_open_success_threshold
        self.changes = changes
        self.state = CLOSED
        self.failures = 0
        self.successes = 0
        self.probing = False
        self.opened_at = 0.0

    def turn(self, state: int, now: float) -> None:
        self.state = state
        for where, value in zip(self.changes, (now, 0, 0, self.replica, state), strict=True):
            where.append(value)

    def admit(self, now: float) -> str | None:
        if self.state == CLOSED:
            return "ordinary"
        if self.state == OPEN:
            if now - self.opened_at < self.cooldown:
                return None
            self.turn(HALF_OPEN, now)
            self.successes = 0
        elif self.probing:
            return None
        self.probing = True
        return "probe"

    def succeeded(self, permit: str, now: float) -> None:
        if permit == "probe":
            self.probing = False
            self.successes += 1
            if self.successes >= self.wanted:
                self.turn(CLOSED, now)
                self.failures = 0
        elif self.state == CLOSED:
            self.failures = 0

    def failed(self, permit: str, now: float) -> None:
        if permit == "probe":
            self.probing = False
        elif self.state != CLOSED:
            return
        else:
            self.failures += 1
            if self.failures < self.threshold:
                return
        self.opened_at = now
        self.turn(OPEN, now)


def simulated(scenario: Scenario) -> Trace:
    """The decision scenario in simpy."""
    import simpy

    (load,) = scenario.workload
    service = scenario.services["parts_availability"].settings
    (fault,) = service["faults"]
    begin, end = fault["from"], fault["to"]
    places, limit_after = service["queue"], scenario.stack.middleware["availability_timeout"].timeout
    retry = scenario.stack.middleware["three_attempts"]
    latency = service["latency"]
    if isinstance(latency, dict):
        from math import log

        mu, sigma, draw = log(latency["median"]), latency["sigma"], random.Random(scenario.seed).lognormvariate
    else:
        mu, sigma, draw = latency, 0.0, lambda seconds, _: seconds
    env = simpy.Environment()
    workers = simpy.Resource(env, capacity=service["workers"])
    many = ceil(load.rate * scenario.duration)
    starts = array("d", [number / load.rate for number in range(many)])
    ends = array("d", [nan]) * many
    outcomes = bytearray([len(CALL_OUTCOMES)]) * many
    useful = bytearray(many)
    attempts = [array(code) for code in "iHHdddB"]
    probes = [array(code) for code in "HHHddB"]
    rejections = [array(code) for code in "dHHHiB"]
    changes = [array(code) for code in "dHHHB"]
    settings = scenario.stack.middleware["availability_breaker"]
    breakers = [Breaker(replica, settings, changes) for replica in range(REPLICAS)]
    all_done = env.event()
    left = many

    def request(number: int) -> Any:
        nonlocal left
        replica = number % REPLICAS
        breaker = breakers[replica]
        attempt = 1
        while True:
            start = env.now
            permit = breaker.admit(start)
            if permit is None:
                for where, value in zip(rejections, (start, 0, 0, replica, number, 0), strict=True):
                    where.append(value)
                outcomes[number] = UNAVAILABLE
                break
            if permit == "probe":
                probe = len(probes[0])
                for where, value in zip(probes, (0, 0, replica, start, nan, len(PROBE_OUTCOMES)), strict=True):
                    where.append(value)
            limit = env.timeout(limit_after)
            answer = None
            served = nan
            how = CUT_OFF
            with workers.request() as place:
                if not place.triggered and len(workers.queue) > places:
                    how = OVERLOADED
                else:
                    if not place.triggered:
                        yield place | limit
                    if place.triggered:
                        served = env.now
                        answer = env.event() if begin <= served < end else env.timeout(draw(mu, sigma))
                        yield answer | limit
                        if answer.processed:
                            how = ANSWERED
            now = env.now
            row = (number, 0, replica, start, served, now, how)
            for where, value in zip(attempts, row, strict=True):
                where.append(value)
            if permit == "probe":
                probes[4][probe] = now
                probes[5][probe] = WELL if how == ANSWERED else BADLY
            if how == ANSWERED:
                breaker.succeeded(permit, now)
                outcomes[number] = SUCCEEDED
                useful[number] = 1
                break
            breaker.failed(permit, now)
            if attempt >= retry.attempts:
                outcomes[number] = UNAVAILABLE
                break
            yield env.timeout(min(retry.max_delay, retry.base_delay * retry.factor ** (attempt - 1)))
            attempt += 1
        ends[number] = env.now
        left -= 1
        if not left:
            all_done.succeed()

    def source() -> Any:
        for number in range(many):
            if starts[number] > env.now:
                yield env.timeout(starts[number] - env.now)
            env.process(request(number))
        if scenario.duration > env.now:
            yield env.timeout(scenario.duration - env.now)

    env.run(env.process(source()))
    if left:
        env.run(all_done | env.timeout(scenario.drain))
    order = sorted(range(len(attempts[3])), key=attempts[3].__getitem__)
    return Trace(
        title=scenario.title,
        seed=scenario.seed,
        duration=scenario.duration,
        until=env.now,
        replicas=REPLICAS,
        functions=("parts_availability",),
        services=("parts_availability",),
        breakers=("availability_breaker",),
        targets=("parts_availability",),
        capacity={"parts_availability": service["workers"]},
        faults=(FaultPeriod("parts_availability", begin, end, "hang", "hang"),),
        calls=Calls(
            column("d", starts),
            column("d", ends),
            column("H", bytes(2 * many)),
            column("H", [number % REPLICAS for number in range(many)]),
            memoryview(bytes(outcomes)),
            memoryview(bytes(useful)),
            memoryview(bytes(many)),
        ),
        attempts=Attempts(*(column(one.typecode, [one[row] for row in order]) for one in attempts)),
        probes=Probes(*(column(one.typecode, one) for one in probes)),
        rejections=Rejections(*(column(one.typecode, one) for one in rejections)),
        transitions=Transitions(*(column(one.typecode, one) for one in changes)),
    )


def by_simpy(scenario: Scenario) -> dict[str, Any]:
    found: dict[str, Any] = metrics(simulated(scenario))["all"]
    return found


def apart(scenario: Scenario, share: float = 0.0) -> dict[str, tuple[Any, Any]]:
    """Where labkit's and simpy's numbers differ by more than a share."""
    ours, theirs = by_labkit(scenario), by_simpy(scenario)
    return {
        name: (ours[name], theirs[name])
        for name in COMPARED
        if abs((ours[name] or 0) - (theirs[name] or 0)) > share * max(abs(ours[name] or 0), 1000) + 1e-9
    }


# -- memory, in a process of its own: the most that was resident, less that of a run of a tenth


def peak() -> int:
    """The most memory in bytes that this process had resident; 0 where the system does not tell."""
    try:  # Linux: what getrusage() says there may be that of the process which started this one
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        pass
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def most_resident(requests: int) -> int:
    """The most memory in bytes that a fresh process had resident over a run of so many requests and its metrics."""
    script = (
        "from benchmarks.scenarios import by_labkit, decision, peak\n"
        f"assert by_labkit(decision(duration={requests} / 80.0))['offered'] == {requests}\n"
        "print(peak())\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path[:1], os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ)
    return int(done.stdout)


# -- the section


def run(effort: Effort, traffic: Scenario | None = None) -> Section:
    section = Section(
        NAME,
        "the lesson's decision scenario, trace and metrics included: 80 requests/s for 300 s over four replicas",
        ("ms a run", "median", "least", "spread", "ratio"),
    )
    scenario = traffic or decision()
    fourfold = decision(rate=4 * scenario.workload[0].rate, duration=scenario.duration)  # type: ignore[operator]
    cases: dict[str, Callable[[], Any]] = {DECISION: lambda: by_labkit(scenario)}
    try:
        __import__("simpy")
    except ImportError as problem:
        section.notes.append(missing("simpy", problem) + " The bound against it is not judged here.")
    else:
        # One call a second less: of two events at one instant either may come first, and at 79 a second none meet.
        constant = decision(rate=(scenario.workload[0].rate or 0) - 1, duration=scenario.duration, latency=0.053)
        exactly, nearly = apart(constant), apart(scenario, 0.005)
        assert not exactly, f"with a constant latency labkit and simpy differ: {exactly}"
        assert not nearly, f"labkit and simpy differ by more than half a percent: {nearly}"
        cases[SIMPY] = lambda: by_simpy(scenario)
        section.notes.append(
            f"With a constant latency, and no two events at one instant, both agree on all of {', '.join(COMPARED)}."
        )
    cases[FOURFOLD] = lambda: by_labkit(fourfold)
    found = by_labkit(scenario)
    assert found["opens"], "the outage did not open the breakers"
    samples = interleave(cases, effort.runs)
    section.take(samples, 1e3, reference=DECISION)
    section.bounds.append(Bound("the decision scenario, ms", (samples.median(DECISION) * 1e3,), 150.0, places=0))
    if SIMPY in cases:
        section.bounds.append(Bound("the same, times simpy's time", samples.ratio(DECISION, SIMPY), 1.2))
    section.bounds.append(Bound("four times the rate, ms", (samples.median(FOURFOLD) * 1e3,), 650.0, places=0))
    _growth(section, effort)
    _sweep(section, effort, scenario)
    return section


def _growth(section: Section, effort: Effort) -> None:
    few, many = min(10_000, effort.requests), effort.requests
    short, long = decision(duration=few / 80.0), decision(duration=many / 80.0)
    samples = interleave({"few": lambda: by_labkit(short), "many": lambda: by_labkit(long)}, max(2, effort.runs // 5))
    each = [samples.median(name) / requests for name, requests in (("few", few), ("many", many))]
    ratios = samples.ratio("many", "few")
    section.heading(f"cost a request: {each[0] * 1e6:.2f} us of {few:,}, {each[1] * 1e6:.2f} us of {many:,}")
    section.bounds.append(
        Bound(f"cost a request, {many:,} to {few:,}", tuple(ratio * few / many for ratio in ratios), 1.3)
    )
    if not peak():
        section.notes.append("This system does not tell how much memory a process had; memory is not judged here.")
        return
    grown = (most_resident(many) - most_resident(max(many // 10, 1))) / (many - max(many // 10, 1))
    section.bounds.append(Bound("bytes a request, most resident", (grown,), 200.0, places=0))
    kept = run_scenario(short).nbytes / few
    section.notes.append(
        f"Memory is what a fresh process had resident at most over a run and its metrics, of {many:,} requests less of "
        f"a tenth of them; the trace itself keeps {kept:.0f} bytes a request."
    )


# -- what two cores give


_BUSY = """
import sys, time
print("ready", flush=True)
for line in sys.stdin:
    began, total = time.perf_counter(), 0
    for number in range(int(line)):
        total += number & 3
    print(time.perf_counter() - began, flush=True)
"""
_TURNS = 10_000_000


class Busy:
    """Two processes that have nothing to do with each other and only reckon: what a second core gives, at best."""

    def __enter__(self) -> Busy:
        command = [sys.executable, "-S", "-c", _BUSY]
        self._both = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        for one in self._both:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._both:
            one.communicate()  # its stdin ends, and with it the process

    def seconds(self, many: int, turns: int = _TURNS) -> float:
        """How long so many of them take for the same work each, side by side."""
        for one in self._both[:many]:
            assert one.stdin is not None
            one.stdin.write(f"{turns}\n")
            one.stdin.flush()
        return max(float(one.stdout.readline()) for one in self._both[:many] if one.stdout is not None)


def _sweep(section: Section, effort: Effort, scenario: Scenario) -> None:
    thresholds = range(1, 11)
    cooldowns = range(5, 5 + 5 * max(1, effort.sweep // 10), 5)
    runs = len(thresholds) * len(cooldowns)
    vary = {"failure_threshold": thresholds, "cooldown_period": cooldowns}

    def on(jobs: int) -> Callable[[], object]:
        def swept() -> object:
            with TemporaryDirectory() as folder:
                return sweep(scenario, vary, jobs=jobs, out=os.path.join(folder, "out.jsonl"))

        return swept

    one, two = f"a sweep of {runs} runs on one core", "the same on two"
    alone, beside = "a process that only reckons", "two of them, for the same each"
    samples, tables = Samples([one, two, alone, beside]), []
    with Busy() as busy:
        for _ in range(effort.sweeps):
            for name, swept in ((one, on(1)), (two, on(2))):
                for case, many in ((alone, 1), (beside, 2)):  # before each, since what a machine gives changes
                    samples.of[case].append(busy.seconds(many))
                began = clock()
                tables.append(swept())
                samples.of[name].append(clock() - began)
            for case, many in ((alone, 1), (beside, 2)):
                samples.of[case].append(busy.seconds(many))
    assert all(table == tables[0] for table in tables), "two cores give another table than one"
    for name in samples.of:
        section.rows.append(
            Row(
                name,
                (f"{samples.median(name) * 1e3:.0f}", f"{samples.least(name) * 1e3:.0f}", "", ""),
                {"median": samples.median(name), "least": samples.least(name)},
            )
        )
        section.samples[name] = samples.of[name]
    gains = samples.ratio(one, two)
    given = 2.0 * samples.median(alone) / samples.median(beside)
    section.notes.append(
        f"A second core makes a sweep {gains[0]:.2f} times as fast. Two processes that only reckon get {given:.2f} "
        "times the work of one done in its time, and that is the most that this machine gives."
    )
    section.bounds.append(
        Bound(
            "a sweep's gain from a second core, as a share of what the machine gives",
            (gains[0] / given, gains[1] / given),
            0.9,
            True,
        )
    )
