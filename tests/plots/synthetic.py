"""Traces made up for the pictures' tests: a small model of traffic, four replicas and an outage, from a seed."""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

from labkit.scenario.run.trace import (
    CALL_OUTCOMES,
    Attempts,
    Calls,
    FaultPeriod,
    Probes,
    Rejections,
    Trace,
    Transitions,
    column,
)

CODES = {
    Calls: "ddBBBBH",
    Attempts: "iBBdddB",
    Probes: "BBBddB",
    Rejections: "dBBBiB",
    Transitions: "dBBBB",
}
NEVER = float("nan")
CLOSED, OPEN, HALF_OPEN = range(3)


def table(kind: Any, rows: list[tuple[Any, ...]]) -> Any:
    """A table of such rows."""
    columns = zip(*rows, strict=True) if rows else [()] * len(CODES[kind])
    return kind(*(column(code, list(values)) for code, values in zip(CODES[kind], columns, strict=True)))


def trace(**given: Any) -> Trace:
    """A trace of which only what matters is given; rows as lists of tuples."""
    tables = {"calls": Calls, "attempts": Attempts, "probes": Probes, "rejections": Rejections}
    tables["transitions"] = Transitions
    plain: dict[str, Any] = {
        "title": "A run",
        "seed": 1,
        "duration": 10.0,
        "until": 10.0,
        "replicas": 1,
        "functions": ("parts_availability",),
        "services": ("parts_availability",),
        "breakers": ("availability_breaker",),
        "targets": ("parts_availability",),
        "capacity": {},
        "faults": (),
        **{name: [] for name in tables},
        **given,
    }
    for name, kind in tables.items():
        if isinstance(plain[name], list):
            plain[name] = table(kind, plain[name])
    return Trace(**plain)


def outage(
    *,
    title: str = "An outage of two minutes",
    seed: int = 7,
    rate: float = 80.0,
    duration: float = 300.0,
    down: tuple[tuple[float, float], ...] = ((60.0, 180.0),),
    replicas: int = 4,
    breaker: bool = True,
    tries: int = 1,
    threshold: int = 5,
    cooldown: float = 30.0,
    closes_after: int = 3,
    limit: float = 2.0,
    told: str = "unavailable",
    poisson: bool = False,
    workers: int | None = None,
    patience: float | None = None,
) -> Trace:
    """Traffic at a dependency that hangs for a while; each replica has a breaker of its own."""
    random = Random(seed)
    calls: list[list[Any]] = []
    attempts: list[list[Any]] = []
    probes: list[list[Any]] = []
    rejections: list[tuple[Any, ...]] = []
    transitions: list[tuple[Any, ...]] = []
    state, failures, successes, opened, probing = (
        [CLOSED] * replicas,
        [0] * replicas,
        [0] * replicas,
        [0.0] * replicas,
        [False] * replicas,
    )
    due: list[tuple[float, int, str, Any]] = []
    count = 0

    def later(at: float, what: str, about: Any) -> None:
        nonlocal count
        count += 1
        heapq.heappush(due, (at, count, what, about))

    def turn(at: float, who: int, new: int) -> None:
        state[who] = new
        transitions.append((at, 0, 0, who, new))

    at, number = 0.0, 0
    while at < duration:
        later(at, "call", None)
        number += 1
        at = at + random.expovariate(rate) if poisson else number / rate
    while due:
        now, _, what, about = heapq.heappop(due)
        if what == "call":
            row, who, nth = len(calls), len(calls) % replicas, 1
            calls.append([now, NEVER, 0, who, len(CALL_OUTCOMES), 0, 0])
            if patience is not None:
                later(now + patience, "leave", row)
        elif what == "again":
            row, nth = about
            who = calls[row][3]
        elif what == "leave":
            if calls[about][1] != calls[about][1]:
                calls[about][1], calls[about][4] = now, CALL_OUTCOMES.index("cancelled")
            continue
        else:
            row, nth, mine, good, probe = about
            who = calls[row][3]
            attempts[mine][5], attempts[mine][6] = now, 0 if good else 8
            if probe is not None:
                probes[probe][4], probes[probe][5] = now, 0 if good else 1
                probing[who] = False
                if not good:
                    opened[who] = now
                    turn(now, who, OPEN)
                else:
                    successes[who] += 1
                    if successes[who] >= closes_after:
                        failures[who] = 0
                        turn(now, who, CLOSED)
            elif breaker and state[who] == CLOSED:
                failures[who] = 0 if good else failures[who] + 1
                if failures[who] >= threshold:
                    opened[who] = now
                    turn(now, who, OPEN)
            if not good and nth < tries:
                later(now, "again", (row, nth + 1))
            elif calls[row][1] != calls[row][1]:
                calls[row][1] = now
                calls[row][4] = CALL_OUTCOMES.index("succeeded" if good else "timeout")
                calls[row][5] = int(good)
            continue
        probe = None
        if breaker and state[who] != CLOSED:
            if state[who] == OPEN and now - opened[who] >= cooldown:
                successes[who] = 0
                turn(now, who, HALF_OPEN)
            if state[who] == OPEN or probing[who]:
                rejections.append((now, 0, 0, who, row, 0))
                calls[row][1], calls[row][4] = now, CALL_OUTCOMES.index(told)
                continue
            probing[who], probe = True, len(probes)
            probes.append([0, 0, who, now, NEVER, 3])
        good = not any(start <= now < end for start, end in down)
        took = random.lognormvariate(-3.0, 0.4) if good else limit
        attempts.append([row, 0, who, now, now, NEVER, 10])
        later(now + took, "end", (row, nth, len(attempts) - 1, good, probe))
    until = max([duration, *(call[1] for call in calls if call[1] == call[1])])
    return trace(
        title=title,
        seed=seed,
        duration=duration,
        until=until,
        replicas=replicas,
        breakers=("availability_breaker",) if breaker else (),
        targets=("parts_availability",) if breaker else (),
        capacity={"parts_availability": workers} if workers is not None else {},
        faults=tuple(FaultPeriod("parts_availability", start, end, "hang", "hangs") for start, end in down),
        calls=[tuple(call) for call in calls],
        attempts=[tuple(one) for one in attempts],
        probes=[tuple(probe) for probe in probes],
        rejections=rejections,
        transitions=transitions,
    )


def two_breakers() -> Trace:
    """Two services, each behind a breaker of its own; one of them is down, and both have limits."""
    one = outage(replicas=2, rate=20.0, duration=120.0, down=((30.0, 70.0),), workers=60, seed=3)
    other = outage(replicas=2, rate=8.0, duration=120.0, down=(), seed=4, poisson=True)
    shift = len(one.calls)
    calls = [*one.calls.rows(), *((a, b, 1, *rest) for a, b, _, *rest in other.calls.rows())]
    attempts = [*one.attempts.rows(), *((row + shift, 1, *rest) for row, _, *rest in other.attempts.rows())]
    order = sorted(range(len(calls)), key=lambda row: calls[row][0])
    place = {old: new for new, old in enumerate(order)}
    attempts = sorted(((place[row], *rest) for row, *rest in attempts), key=lambda row: row[3])
    return trace(
        title="One of two dependencies hangs",
        duration=120.0,
        until=one.until,
        replicas=2,
        functions=("parts_availability", "maintenance_documents"),
        services=("parts_availability", "maintenance_documents"),
        breakers=("availability_breaker", "documents_breaker"),
        targets=("parts_availability", "maintenance_documents"),
        capacity={"parts_availability": 60, "maintenance_documents": 12},
        faults=(
            FaultPeriod("parts_availability", 30.0, 70.0, "hang", "hangs"),
            FaultPeriod("maintenance_documents", 60.0, 80.0, "slow", "answers in 0.4 s"),
        ),
        calls=[calls[row] for row in order],
        attempts=attempts,
        probes=list(one.probes.rows()),
        rejections=[(at, m, t, r, place[c], why) for at, m, t, r, c, why in one.rejections.rows()],
        transitions=[*one.transitions.rows(), (75.5, 1, 1, 0, OPEN)],
    )


def flapping() -> Trace:
    """A dependency that comes and goes every few seconds, and breakers that follow."""
    return outage(
        title="A dependency that comes and goes",
        down=tuple((float(start), start + 4.0) for start in range(20, 280, 10)),
        cooldown=2.0,
        closes_after=1,
        limit=0.5,
        poisson=True,
        seed=11,
    )


def one_call() -> Trace:
    """One call that was answered."""
    return trace(
        title="One call",
        calls=[(1.0, 1.25, 0, 0, 0, 1, 0)],
        attempts=[(0, 0, 0, 1.0, 1.0, 1.25, 0)],
    )


MADE = {
    "outage": outage,
    "healthy": lambda: outage(title="A healthy dependency", down=(), poisson=True, seed=5),
    "no breaker": lambda: outage(title="No breaker, three attempts", breaker=False, tries=3, workers=600),
    "flapping": flapping,
    "empty": lambda: trace(title="Nothing happened"),
    "one call": one_call,
    "one second": lambda: outage(title="One second", duration=1.0, down=((0.4, 0.8),), limit=0.1, cooldown=0.2),
    "capacity": lambda: outage(title="With a limit", workers=200, patience=1.5, tries=2, rate=60.0),
    "two breakers": two_breakers,
    "many replicas": lambda: outage(title="Thirty replicas", replicas=30, told="rejected"),
}
"""Each kind of trace by its name, as a function that makes it."""
