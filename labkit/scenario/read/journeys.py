"""A run as requests that travel: per request what happened where and when, as plain data for whoever plays it back.

A trace says when a call began, when an attempt reached a dependency and who turned a call away. Here this is put
together, call by call, into a journey through the layers of the stack. With many calls a fair sample is taken, and what
it leaves out is said; the counters count everything.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.config import BREAKERS, StackConfig, nearest
from labkit.errors import ConfigError
from labkit.scenario.run.subjects import ASSISTANT
from labkit.scenario.run.trace import ATTEMPT_OUTCOMES, CALL_OUTCOMES, REJECTION_REASONS, STATES, FaultPeriod, Trace
from labkit.scenario.spec.model import Scenario

__all__ = [
    "ENDS",
    "EVENTS",
    "PHRASES",
    "Breaker",
    "Counted",
    "Event",
    "Flow",
    "Journey",
    "Layer",
    "Served",
    "flow",
    "journey_of",
    "layers_of_function",
    "limit_place",
    "words_of",
]

EVENTS = ("begins", "waits", "arrives", "is served", "is answered", "fails", "runs out", "is turned away", "ends")
"""What may happen to a request; an event's code is its place in here."""

BEGINS, WAITS, ARRIVES, SERVED, ANSWERED, FAILS, RUNS_OUT, TURNED_AWAY, ENDS_ = range(len(EVENTS))

ENDS = (*CALL_OUTCOMES, "unfinished", "not_useful")
"""How a call ended: as in a trace, and an answer that was of no use to its caller apart from one that was."""

_NOT_USEFUL = ENDS.index("not_useful")

PHRASES: Mapping[str, Sequence[str] | str] = {
    "begins": "leaves its caller",
    "waits": "waits at {place}",
    "waits outside": "is with its caller again",
    "arrives": "reaches {place}",
    "arrives again": "reaches {place}, attempt {number}",
    "arrives as probe": "is let through to {place} as a probe",
    "is served": "is taken up by {place}",
    "is answered": "is answered by {place}",
    "fails": "{why} at {place}",
    "runs out": "runs out of time at {place}",
    "is turned away": "is turned away at {place}: {why}",
    "ends": "ends: {why}",
    "why fails": (
        "is answered",
        "is refused",
        "meets an error",
        "loses its connection",
        "gets an error's text",
        "loses its stream",
        "is one too many for the rate limit",
        "finds the queue full",
        "is cancelled",
        "is left",
        "has no end",
    ),
    "why turned away": ("the breaker lets nothing through now", "it is full", "another replica holds the probe lease",
                        "the budget of retries is spent"),
    "why ends": ("its caller has an answer", "its caller is told that it is unavailable", "its caller is turned away",
                 "its caller gets a time-out", "its caller gets an error", "its caller gave up", "it has no end",
                 "its caller has an answer that is of no use"),
}  # fmt: skip
"""An event in words, by its name in `EVENTS`; `{place}`, `{number}` and `{why}` are filled in."""


class Layer(NamedTuple):
    """A middleware on the way, or an assistant between its own and its tools'.

    Attributes:
        name: its name in the configuration.
        type_: its `_type`; "" where only its name is known.
        words: the one or two settings that a picture of it should tell.
        cooldown: seconds that its OPEN lasts at least, for a breaker of which it is known; else None.
        limit: seconds after which it ends what is inside, or None.
    """

    name: str
    type_: str
    words: str = ""
    cooldown: float | None = None
    limit: float | None = None

    @property
    def is_breaker(self) -> bool:
        """Whether it keeps a state."""
        return self.type_ in BREAKERS

    @property
    def kind(self) -> str:
        """What it is, in words; "" where its name says so."""
        if self.type_ == self.name:
            return ""
        return _KINDS.get(self.type_, self.type_.replace("_", " "))

    def plain(self) -> dict[str, Any]:
        """What a page draws of it."""
        return {**self._asdict(), "breaker": self.is_breaker, "kind": self.kind}


_KINDS = {
    "circuit_breaker": "breaker",
    "window_circuit_breaker": "window breaker",
    "guarded_circuit_breaker": "guarded breaker",
}


class Served(NamedTuple):
    """A dependency: its name, how many workers it has (None: no limit), and what it was told to do when."""

    name: str
    workers: int | None
    faults: tuple[FaultPeriod, ...]


class Event(NamedTuple):
    """Something that happened to a request.

    Attributes:
        at: seconds.
        code: place in `EVENTS`.
        place: of "waits", "runs out" and "is turned away" the layer's place, -1 for the caller; of "arrives" to "fails"
            the service's place; of "ends" the place of how in `ENDS`.
        detail: of "arrives" 1 for a probe; of "fails" the place in `ATTEMPT_OUTCOMES`; of "is turned away" in
            `REJECTION_REASONS`.
    """

    at: float
    code: int
    place: int = 0
    detail: int = 0


class Journey(NamedTuple):
    """One call: its row in the trace, the replica that took it, and its events in order."""

    call: int
    replica: int
    events: tuple[Event, ...]

    def plain(self) -> list[int]:
        """Call, replica, then four numbers an event: tenths of a millisecond since the last, code, place, detail."""
        flat = [self.call, self.replica]
        for step, event in zip(_steps([event.at for event in self.events]), self.events, strict=True):
            flat += (step, event.code, event.place, event.detail)
        return flat


class Breaker(NamedTuple):
    """One breaker of one replica: its layer's place, and from when on it was in which state (place in `STATES`)."""

    layer: int
    replica: int
    states: tuple[tuple[float, int], ...]


class Counted(NamedTuple):
    """How often something had happened by when: every `every`-th of its times, and how many there were in all."""

    name: str
    every: int
    times: tuple[float, ...]
    total: int

    def by(self, seconds: float) -> int:
        """How many by then; to the nearest `every`."""
        found = bisect_right(self.times, seconds)
        return self.total if found == len(self.times) and self.times else found * self.every


@dataclass(frozen=True, slots=True)
class Flow:
    """What a playback needs of a run.

    Attributes:
        title: of the run.
        function: whose calls travel.
        others: the functions that are called as well and whose calls are not shown.
        until: when the run ended, in seconds.
        replicas: how many there were.
        rows: how many of them are shown, the first ones.
        layers: outermost first.
        services: those behind the layers.
        total: how many calls of the function there were on the replicas that are shown.
        every: of how many calls in a row one was drawn; 1 if all are shown.
        probes: how many calls are shown beyond that since they were probes.
        journeys: the calls that are shown, in the order of their begin.
        breakers: of the replicas that are shown.
        counts: of all calls of the function, by how they ended, "arrived" and "probes"; and of each service
            "NAME/arrived" and "NAME/left".
        beside: for a service to which not every layer is on the way, the names of those that are not.
    """

    title: str
    function: str
    others: tuple[str, ...]
    until: float
    replicas: int
    rows: int
    layers: tuple[Layer, ...]
    services: tuple[Served, ...]
    total: int
    every: int
    probes: int
    journeys: tuple[Journey, ...]
    breakers: tuple[Breaker, ...]
    counts: tuple[Counted, ...]
    beside: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def share(self) -> str:
        """What is shown and what is not, in a sentence or a few."""
        shown = len(self.journeys) - self.probes
        if self.every == 1:
            told = f"All {self.total:,} calls are shown." if self.total != 1 else "The one call is shown."
        else:
            more = f", and {self.probes:,} more that were probes" if self.probes else ""
            told = (
                f"Shown are {shown:,} of {self.total:,} calls, one drawn from each {self.every:,} in a row{more}. "
                "The counters count every call."
            )
        if self.replicas > self.rows:
            told += f" Of {self.replicas} replicas the first {self.rows} are drawn."
        for service, names in self.beside:
            told += f" What goes to {service} does not pass {' and '.join(names)}."
        if self.others:
            told += f" Calls of {' and '.join(self.others)} are not shown; {self.function} is."
        return told

    def told(self, journey: Journey) -> list[str]:
        """A journey in words, a sentence an event."""
        return [f"{event.at:.2f} s: call {journey.call + 1:,} {self._words(journey, at)}."
                for at, event in enumerate(journey.events)]  # fmt: skip

    def _words(self, journey: Journey, at: int) -> str:
        event = journey.events[at]
        number = sum(one.code == ARRIVES for one in journey.events[: at + 1])
        return words_of(event, self.layers, self.services, number)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; times are whole tenths of a millisecond, those of a list counted from the last."""
        return {
            "title": self.title,
            "function": self.function,
            "until": self.until,
            "replicas": self.replicas,
            "rows": self.rows,
            "share": self.share(),
            "layers": [one.plain() for one in self.layers],
            "services": [
                {"name": one.name, "workers": one.workers, "faults": [[f.start, f.end, f.words] for f in one.faults]}
                for one in self.services
            ],
            "every": self.every,
            "journeys": [journey.plain() for journey in self.journeys],
            "breakers": [
                {"layer": one.layer, "replica": one.replica, "states": [list(state) for state in one.states]}
                for one in self.breakers
            ],
            "counts": {
                one.name: {"every": one.every, "total": one.total, "times": _steps(one.times)} for one in self.counts
            },
            "phrases": {key: words if isinstance(words, str) else list(words) for key, words in PHRASES.items()},
        }


def words_of(event: Event, layers: Sequence[Layer], services: Sequence[Served], number: int = 1) -> str:
    """What happened, in words that go on from "call 7".

    Args:
        event: what happened.
        layers, services: where the event's place is.
        number: which attempt of the call it is, from 1.
    """
    name = EVENTS[event.code]
    key, why = name, ""
    if event.code in (ARRIVES, SERVED, ANSWERED, FAILS):
        place = services[event.place].name
        if event.code == ARRIVES:
            key = "arrives as probe" if event.detail else "arrives again" if number > 1 else key
    else:
        known = event.code != ENDS_ and 0 <= event.place < len(layers)
        place = layers[event.place].name if known else "a limit" if event.code == RUNS_OUT else ""
        if event.code == WAITS and event.place < 0:
            key = "waits outside"
    if event.code == ENDS_:
        why = PHRASES["why ends"][event.place]
    elif event.code in (FAILS, TURNED_AWAY):
        why = PHRASES["why fails" if event.code == FAILS else "why turned away"][event.detail]
    return str(PHRASES[key]).format(place=place, number=number, why=why)


def flow(
    trace: Trace,
    scenario: Scenario | None = None,
    *,
    function: str | None = None,
    most: int = 3000,
    rows: int = 4,
) -> Flow:
    """Put a trace together into journeys.

    Args:
        trace: the run.
        scenario: what was run; without it only those layers are known that did anything, and not their settings.
        function: whose calls to show; by default that which was called most.
        most: how many calls to show, about; there are more where probes come on top.
        rows: how many replicas to show.

    Raises:
        ConfigError: the trace has no such function.
    """
    calls = trace.calls
    shown = _function(trace, function)
    number = trace.functions.index(shown)
    layers, names = _way(trace, scenario, shown)
    home = _Homes(layers)
    services = tuple(
        Served(name, trace.capacity.get(name), tuple(one for one in trace.faults if one.service == name))
        for name in names
    )  # fmt: skip
    rows = min(rows, trace.replicas)
    mine = [row for row, each in enumerate(calls.function) if each == number]
    drawn = [row for row in mine if calls.replica[row] < rows]
    every = max(1, math.ceil(len(drawn) / most))
    draw = random.Random(trace.seed)
    sample = {draw.choice(drawn[at : at + every]) for at in range(0, len(drawn), every)}
    probing = _probing(trace, scenario)
    of_probes = {call for call in probing.values() if calls.function[call] == number and calls.replica[call] < rows}
    chosen = sample | of_probes
    things = _things(trace, chosen, layers, names)
    journeys = tuple(_journey(trace, call, things.get(call, []), home, probing) for call in sorted(chosen))
    others = {calls.function[row] for row in range(len(calls))} - {number} if len(mine) < len(calls) else set()
    return Flow(
        title=trace.title,
        function=shown,
        others=tuple(trace.functions[one] for one in sorted(others)),
        until=trace.until,
        replicas=trace.replicas,
        rows=rows,
        layers=layers,
        services=services,
        total=len(drawn),
        every=every,
        probes=len(chosen) - len(sample),
        journeys=journeys,
        breakers=tuple(_breakers(trace, scenario, layers, rows, shown)),
        counts=tuple(_counts(trace, mine, names)),
        beside=_beside(scenario, shown, layers),
    )


def journey_of(trace: Trace, shown: Flow, call: int, scenario: Scenario | None = None) -> Journey:
    """The journey of one call, whether it is in the sample or not.

    Args:
        trace, scenario: as given to `flow`.
        shown: what `flow` made of them.
        call: its row in the trace.

    Raises:
        ConfigError: there is no such call, or it is none of those that are drawn.
    """
    calls = trace.calls
    if not 0 <= call < len(calls):
        raise ConfigError(f"there is no call {call + 1:,}; they are numbered from 1 to {len(calls):,}")
    function = trace.functions[calls.function[call]]
    if function != shown.function:
        raise ConfigError(f"call {call + 1:,} is one of {function}, and {shown.function} is shown")
    if calls.replica[call] >= shown.rows:
        raise ConfigError(f"call {call + 1:,} went to replica {calls.replica[call] + 1}, which is not drawn")
    names = [one.name for one in shown.services]
    things = _things(trace, {call}, shown.layers, names)
    return _journey(trace, call, things.get(call, []), _Homes(shown.layers), _probing(trace, scenario))


# ------------------------------------------------------------------------------------------------------- what there is


def layers_of_function(config: StackConfig, function: str) -> tuple[Layer, ...]:
    """The middleware of a function that acts, outermost first."""
    return tuple(_layer(name, one.type, one.model_dump()) for name, one in config.layers_of(function).items())


def _layer(name: str, type_: str, settings: Mapping[str, Any]) -> Layer:
    words, cooldown, limit = "", None, None
    if type_ in ("circuit_breaker", "guarded_circuit_breaker"):
        cooldown, limit = settings["cooldown_period"], settings["probe_timeout"]
        words = f"{_many(settings['failure_threshold'], 'failure')}, {cooldown:g} s"
    elif type_ == "window_circuit_breaker":
        limit = settings["probe_timeout"]
        words = f"open for {settings['open_duration']:g} s"
        cooldown = settings["open_duration"] if settings["max_open_duration"] is None else None
    elif type_ == "timeout":
        limit = settings["timeout"]
        words = f"{limit:g} s"
    elif type_ == "retry":
        words = _many(settings["attempts"], "attempt")
    elif type_ == "bulkhead":
        words = f"{settings['max_concurrent']} at once"
    elif type_ == "retry_budget":
        words = f"{settings['ratio']:.0%} retries"
    return Layer(name, type_, words, cooldown, limit)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _function(trace: Trace, wanted: str | None) -> str:
    if wanted is not None:
        if wanted in trace.functions:
            return wanted
        near = nearest(wanted, trace.functions)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(trace.functions)}"
        raise ConfigError(f"the run has no function '{wanted}'; {hint}")
    many = [0] * len(trace.functions)
    for each in trace.calls.function:
        many[each] += 1
    return trace.functions[many.index(max(many))]


def _way(trace: Trace, scenario: Scenario | None, function: str) -> tuple[tuple[Layer, ...], tuple[str, ...]]:
    """The layers from a function's callers to the services, and these services."""
    if scenario is None:
        return tuple(Layer(name, "") for name in trace.breakers), trace.services
    stack = scenario.stack
    layers = list(layers_of_function(stack, function))
    tools = _tools(scenario, function)
    if tools:
        layers.append(Layer(function, stack.functions[function].type_))
        for tool in tools:
            layers += [one for one in layers_of_function(stack, tool) if one not in layers]
    found = [scenario.service_of(one) for one in tools or (function,)]
    names = tuple(dict.fromkeys(name for name in found if name is not None))
    return tuple(layers), names or trace.services


def _tools(scenario: Scenario, function: str) -> tuple[str, ...]:
    """The functions that a function calls in turn, if it is an assistant."""
    service = scenario.service_of(function)
    spec = scenario.services.get(service or "")
    if spec is None or spec.type_ != ASSISTANT:
        return ()
    named = [spec.settings.get(key, usual) for key, usual in (("stock", "parts_availability"),
                                                              ("documents", "maintenance_documents"))]  # fmt: skip
    return tuple(name for name in named if name in scenario.stack.functions)


def _beside(
    scenario: Scenario | None, function: str, layers: Sequence[Layer]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The services of an assistant's tools to which some layers are not on the way, and these layers."""
    found = []
    for tool in _tools(scenario, function) if scenario is not None else ():
        assert scenario is not None
        config = scenario.stack.functions[tool]
        own = {*scenario.stack.functions[function].middleware, function, *config.middleware}
        missing = tuple(one.name for one in layers if one.name not in own)
        service = scenario.service_of(tool)
        if missing and service is not None:
            found.append((service, missing))
    return tuple(found)


class _Homes:
    """Where a request of a function waits between two attempts, and which layer a time-out is of."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        types = [one.type_ for one in layers]
        self.retry = types.index("retry") if "retry" in types else -1
        self.bulkhead = types.index("bulkhead") if "bulkhead" in types else -1
        self.assistant = types.index(ASSISTANT) if ASSISTANT in types else -1

    def before(self, first: bool, failed: bool) -> int:
        """Where it waits before its next attempt: the layer's place, -1 with its caller."""
        if first:
            return max(self.bulkhead, self.assistant)
        return max(self.retry, self.assistant) if failed else self.assistant


def limit_place(layers: Sequence[Layer], waited: float, total: float, probe: bool) -> int:
    """The place of the layer that ended an attempt: the one whose limit is what had passed by then.

    Args:
        layers: outermost first.
        waited: seconds since the attempt began.
        total: seconds since the call began.
        probe: whether a breaker's limit on probes held.
    """
    limits = [
        place
        for place, one in enumerate(layers)
        if one.limit is not None and (one.type_ == "timeout" or (probe and one.is_breaker))
    ]
    if not limits:
        return -1
    off = {place: min(abs(one - (layers[place].limit or 0.0)) for one in (waited, total)) for place in limits}
    least = min(off.values())
    return max(place for place in limits if off[place] <= least + 1e-6)


# ---------------------------------------------------------------------------------------------------------- journeys


def _probing(trace: Trace, scenario: Scenario | None) -> dict[int, int]:
    """The attempts that were probes: row of the attempt, and of its call.

    A breaker that probes lets nothing else through, so its probe is the next attempt that its replica makes of it.
    """
    attempts, probes = trace.attempts, trace.probes
    if not len(probes):
        return {}
    starts: dict[int, list[tuple[float, int]]] = {}
    for row in range(len(attempts)):
        if attempts.call[row] >= 0:
            starts.setdefault(attempts.replica[row], []).append((attempts.start[row], row))
    found: dict[int, int] = {}
    concerns = _Concerned(trace, scenario)
    for breaker, target, replica, start, end, _ in probes.rows():
        mine = starts.get(replica, [])
        for at in range(bisect_right(mine, (start, -1)), len(mine)):
            begun, row = mine[at]
            if not begun <= end and end == end:
                break
            if row not in found and concerns(breaker, target, row):
                found[row] = attempts.call[row]
                break
    return found


class _Concerned:
    """Which attempts may be made through which breaker, for which target."""

    def __init__(self, trace: Trace, scenario: Scenario | None) -> None:
        self._trace = trace
        self._stack = scenario.stack if scenario is not None else None
        self._contexts = trace.target_of
        self._behind = trace.behind or trace.functions
        self._found: dict[tuple[int, int], set[int] | None] = {}

    def _functions(self, breaker: int, target: int) -> set[int] | None:
        """Those that the breaker guards under that target, by number; None where nobody knows."""
        trace, stack = self._trace, self._stack
        listed = {number for number, context in enumerate(self._contexts) if context == trace.targets[target]}
        if stack is not None:
            name = trace.breakers[breaker]
            listed = {number for number in listed if name in stack.layers_of(trace.functions[number])}
        return listed or None

    def __call__(self, breaker: int, target: int, attempt: int) -> bool:
        key = breaker, target
        if key not in self._found:
            self._found[key] = self._functions(breaker, target)
        functions = self._found[key]
        number = self._trace.calls.function[self._trace.attempts.call[attempt]]
        if functions is None or number in functions:
            return True
        service = self._trace.services[self._trace.attempts.service[attempt]]
        if self._behind[number] == service:  # its function calls that service itself, past this breaker
            return False
        return any(self._behind[one] == service for one in functions)  # an assistant's, which calls tools


_Thing = tuple[float, float, int, int, int]  # begin, end, row, kind (0 an attempt, 1 a rejection), place


def _things(trace: Trace, chosen: set[int], layers: Sequence[Layer], names: Sequence[str]) -> dict[int, list[_Thing]]:
    """What happened to the calls that are shown, by call."""
    things: dict[int, list[_Thing]] = {}
    attempts, rejections = trace.attempts, trace.rejections
    place_of = {number: names.index(name) for number, name in enumerate(trace.services) if name in names}
    for row, call in enumerate(attempts.call):
        if call in chosen and attempts.service[row] in place_of:
            end = attempts.end[row]
            thing = (attempts.start[row], end if end == end else math.inf, row, 0, place_of[attempts.service[row]])
            things.setdefault(call, []).append(thing)
    of_layer = {one.name: place for place, one in enumerate(layers)}
    retry = next((place for place, one in enumerate(layers) if one.type_ == "retry"), 0)
    for row, call in enumerate(rejections.call):
        if call in chosen:
            at = rejections.at[row]
            place = of_layer.get(trace.breakers[rejections.middleware[row]], retry)
            things.setdefault(call, []).append((at, at, row, 1, place))
    for each in things.values():
        each.sort()
    return things


def _journey(
    trace: Trace, call: int, things: list[_Thing], home: _Homes, probing: Mapping[int, int]
) -> Journey:  # fmt: skip
    calls, attempts = trace.calls, trace.attempts
    start, end = calls.start[call], calls.end[call]
    events = [Event(start, BEGINS)]
    failed = False
    for begin, over, row, kind, place in things:
        last = events[-1].at
        first = len(events) == 1
        if not first or begin > last:
            events.append(Event(last, WAITS, home.before(first, failed)))
        if kind:
            events.append(Event(begin, TURNED_AWAY, place, trace.rejections.reason[row]))
            failed = True
            continue
        probe = row in probing
        events.append(Event(begin, ARRIVES, place, int(probe)))
        served, outcome = attempts.served[row], attempts.outcome[row]
        if served > begin:
            events.append(Event(served, SERVED, place))
        if over == math.inf:
            break
        failed = True
        if ATTEMPT_OUTCOMES[outcome] in ("answered", "rejected", "abandoned"):
            events.append(Event(over, ANSWERED, place, outcome))
            failed = False
        elif ATTEMPT_OUTCOMES[outcome] != "cancelled":
            events.append(Event(over, FAILS, place, outcome))
        elif calls.outcome[call] == CALL_OUTCOMES.index("cancelled") and over == end:
            break
        else:
            limit = limit_place(home.layers, over - begin, over - start, probe)
            events.append(Event(over, RUNS_OUT, limit, outcome))
    if end == end:
        how = calls.outcome[call]
        events.append(Event(end, ENDS_, _NOT_USEFUL if how == 0 and not calls.useful[call] else how))
    return Journey(call, calls.replica[call], tuple(events))


def _breakers(
    trace: Trace, scenario: Scenario | None, layers: Sequence[Layer], rows: int, function: str
) -> Iterable[Breaker]:
    """The states of each breaker on the way, for the function, or the tool of it, that lists the breaker.

    Without the scenario nobody knows who lists it: then of several targets that of the function counts, else the first.
    """
    changes: dict[tuple[str, int], dict[str, list[tuple[float, int]]]] = {}
    for at, breaker, target, replica, state in trace.transitions.rows():
        whose = changes.setdefault((trace.breakers[breaker], replica), {})
        whose.setdefault(trace.targets[target], []).append((at, state))
    for place, layer in enumerate(layers):
        if not layer.is_breaker and not any(name == layer.name for name, _ in changes):
            continue
        for replica in range(rows):
            found = changes.get((layer.name, replica), {})
            if scenario is not None:
                stack, way = scenario.stack, (function, *_tools(scenario, function))
                kept = [stack.target_of(one) for one in way if layer.name in stack.layers_of(one)]
            else:
                own = trace.target_of[trace.functions.index(function)]
                kept = [own, *found]
            states = next((found[target] for target in kept if target in found), [])
            yield Breaker(place, replica, ((0.0, STATES.index("CLOSED")), *states))


_EXACT = 4000  # times of a counter that are told one by one


def _counts(trace: Trace, mine: Sequence[int], names: Sequence[str]) -> Iterable[Counted]:
    calls, attempts = trace.calls, trace.attempts
    yield _counted("arrived", [calls.start[row] for row in mine])
    ends: dict[int, list[float]] = {}
    for row in mine:
        if calls.end[row] == calls.end[row]:
            how = calls.outcome[row]
            ends.setdefault(_NOT_USEFUL if how == 0 and not calls.useful[row] else how, []).append(calls.end[row])
    for how, times in sorted(ends.items()):
        yield _counted(ENDS[how], times)
    if len(trace.probes):
        yield _counted("probes", trace.probes.start)
    for name in names:
        number = trace.services.index(name)
        rows = [row for row, each in enumerate(attempts.service) if each == number]
        yield _counted(f"{name}/arrived", [attempts.start[row] for row in rows])
        yield _counted(f"{name}/left", [attempts.end[row] for row in rows if attempts.end[row] == attempts.end[row]])


def _counted(name: str, times: Iterable[float]) -> Counted:
    ordered = sorted(times)
    every = max(1, math.ceil(len(ordered) / _EXACT))
    return Counted(name, every, tuple(ordered[every - 1 :: every]), len(ordered))


def _tick(seconds: float) -> int:
    return round(seconds * 10_000)


def _steps(times: Sequence[float]) -> list[int]:
    ticks = [_tick(one) for one in times]
    return [now - before for now, before in zip(ticks, [0, *ticks], strict=False)]


assert len(REJECTION_REASONS) == len(PHRASES["why turned away"])
