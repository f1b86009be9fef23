"""Several breakers, stepped by hand on the same history: each a `BreakerSession` with a clock of its own.

They part where their rules do. A call that one admits and another rejects goes on in those that admitted it, and what
ends it happens to them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from labkit.errors import ClockError, ConfigError
from labkit.session.session import BreakerSession, breaker_config
from labkit.session.steps import Step

if TYPE_CHECKING:
    from labkit.session.steps import BreakerConfig

__all__ = ["Action", "BreakerSessions", "Round", "Script", "SharedFlight", "scripts", "side_by_side"]

_SHARED = ("cooldown_period", "failure_threshold", "half_open_success_threshold", "probe_timeout")


class Action(NamedTuple):
    """Something that happens to all breakers.

    Attributes:
        op: "call", "finish" or "advance".
        id: which call; for "call", None for the next of c1, c2, ...
        outcome: "ok", "error" or "cancel", for "finish".
        seconds: for "advance".
    """

    op: str
    id: str | None = None
    outcome: str | None = None
    seconds: float = 0.0


class SharedFlight(NamedTuple):
    """A call that is in flight in at least one of the breakers.

    Attributes:
        id: its name.
        started_at: seconds.
        where: the names of the breakers that admitted it and in which it has not ended.
        probe: those of them in which it is a probe.
        late: that it was admitted in an earlier period, in words, by the names of the breakers in which it was.
    """

    id: str
    started_at: float
    where: tuple[str, ...]
    probe: tuple[str, ...]
    late: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Round:
    """What one action did to each breaker.

    Attributes:
        action: what was done; a call has its name by now.
        at: seconds, after it.
        steps: by the breaker's name; None where it was about a call that is not in flight there.
        states: by the breaker's name, after it.
    """

    action: Action
    at: float
    steps: Mapping[str, Step | None]
    states: Mapping[str, str]


class BreakerSessions:
    """Breakers side by side, each on a clock of its own, on one history.

    Args:
        configs: what each breaker is, by the name that it is given.

    Attributes:
        sessions: by name, in order.
        history: the rounds so far.

    Example:
        >>> both = BreakerSessions({name: config for name, config in side_by_side({"failure_threshold": 1}).items()})
        >>> for each in scripts(both.sessions["toolkit"].config)[0].actions:
        ...     last = both.do(each)
        >>> {name: step.admitted for name, step in last.steps.items()}
        {'toolkit': True, 'guarded': False, 'window': False}
    """

    def __init__(self, configs: Mapping[str, BreakerConfig | Mapping[str, Any] | None]) -> None:
        self.sessions = {name: BreakerSession(config) for name, config in configs.items()}
        self.history: list[Round] = []
        self._count = 0

    @property
    def now(self) -> float:
        """Virtual seconds, alike for all."""
        return next(iter(self.sessions.values())).now

    @property
    def in_flight(self) -> list[SharedFlight]:
        """The calls that are in flight anywhere, in the order in which they came."""
        found: dict[str, SharedFlight] = {}
        for name, session in self.sessions.items():
            for flight in session.in_flight:
                late = session.late(flight.id)
                old = found.get(flight.id, SharedFlight(flight.id, flight.started_at, (), (), {}))
                found[flight.id] = SharedFlight(
                    flight.id,
                    flight.started_at,
                    (*old.where, name),
                    (*old.probe, name) if flight.probe else old.probe,
                    {**old.late, name: late} if late else old.late,
                )
        order = {one.action.id: place for place, one in enumerate(self.history) if one.action.op == "call"}
        return sorted(found.values(), key=lambda flight: order.get(flight.id, 0))

    def do(self, action: Action) -> Round:
        """Let it happen to every breaker that it can happen to.

        Raises:
            ClockError: a call of this name is in flight already, or none is, or it cannot be done at all.
        """
        flying = {flight.id: flight.where for flight in self.in_flight}
        if action.op == "call":
            if action.id is None:
                action = action._replace(id=self._next_id(flying))
            elif action.id in flying:
                raise ClockError(f"a call '{action.id}' is in flight already; give another name")
        elif action.op == "finish" and action.id not in flying:
            raise ClockError(f"no call '{action.id}' is in flight; in flight: {', '.join(flying) or 'none'}")
        where = flying[action.id or ""] if action.op == "finish" else tuple(self.sessions)
        steps = {name: _step(each, action) if name in where else None for name, each in self.sessions.items()}
        states = {name: str(each.history[-1].state) if each.history else "CLOSED"
                  for name, each in self.sessions.items()}  # fmt: skip
        made = Round(action, self.now, steps, states)
        self.history.append(made)
        return made

    def undo(self) -> None:
        """Take the last round back, from every breaker that took part in it."""
        if not self.history:
            return
        last = self.history.pop()
        for name, step in last.steps.items():
            if step is not None:
                self.sessions[name].undo()
        if last.action.op == "call":
            self._count = max([0, *(_number(one.action.id) for one in self.history if one.action.op == "call")])

    def reset(self) -> None:
        """Begin again, without a history."""
        for session in self.sessions.values():
            session.reset()
        self.history = []
        self._count = 0

    def close(self) -> None:
        """End the calls that are still in flight."""
        for session in self.sessions.values():
            session.close()

    def _next_id(self, flying: Mapping[str, object]) -> str:
        self._count += 1
        while f"c{self._count}" in flying:
            self._count += 1
        return f"c{self._count}"


def _step(session: BreakerSession, action: Action) -> Step:
    if action.op == "call":
        return session.call(action.id)
    if action.op == "finish":
        return session.finish(action.id or "", action.outcome or "")
    return session.advance(action.seconds)


def _number(id: str | None) -> int:
    return int(id[1:]) if id and id[0] == "c" and id[1:].isdigit() else 0


def side_by_side(
    config: BreakerConfig | Mapping[str, Any] | None = None, *, interval: float = 60.0
) -> dict[str, BreakerConfig]:
    """The toolkit's breaker, the guarded one and the window one, with the same thresholds and times.

    Args:
        config: of the toolkit's breaker or of the guarded one.
        interval: seconds in which the window breaker counts its failures.

    Raises:
        ConfigError: the configuration is of the window breaker, from which the others' cannot be told.
    """
    given = breaker_config(config)
    if given.type == "window_circuit_breaker":
        raise ConfigError(
            "side by side begins with a circuit_breaker or a guarded_circuit_breaker, whose fields the others take; "
            "found a window_circuit_breaker"
        )
    shared = {key: getattr(given, key) for key in _SHARED}
    window = {
        "_type": "window_circuit_breaker",
        "failure_threshold": given.failure_threshold,
        "interval": interval,
        "open_duration": given.cooldown_period,
        "half_open_successes": given.half_open_success_threshold,
        "probe_timeout": given.probe_timeout,
    }
    made = {
        "toolkit": breaker_config(shared),
        "guarded": breaker_config({**shared, "_type": "guarded_circuit_breaker"}),
        "window": breaker_config(window),
    }
    return made | {name: given for name, one in made.items() if one.type == given.type}


# -------------------------------------------------------------------------------------------------------------- scripts


@dataclass(frozen=True, slots=True)
class Script:
    """A short history in which the breakers part, to be played from the beginning.

    Attributes:
        name: the toolkit's fault that it shows, by its id, or "consecutive-or-window".
        label: what it is about, in a few words.
        actions: what happens.
    """

    name: str
    label: str
    actions: tuple[Action, ...]


def scripts(config: BreakerConfig) -> tuple[Script, ...]:
    """The histories worth trying with breakers of these thresholds and times, as made by `side_by_side`.

    Args:
        config: of the toolkit's breaker or of the guarded one.
    """
    if config.type == "window_circuit_breaker":
        return ()
    made = []
    for name, label, play in _SCRIPTS:
        actions = play(config)
        if actions:
            made.append(Script(name, label, tuple(actions)))
    return tuple(made)


def _named(letter: str, count: int) -> list[str]:
    return [letter] if count == 1 else [f"{letter}{number}" for number in range(1, count + 1)]


def _calls(ids: list[str]) -> list[Action]:
    return [Action("call", id) for id in ids]


def _ends(ids: list[str], outcome: str) -> list[Action]:
    return [Action("finish", id, outcome) for id in ids]


def _opened(config: Any, before: list[str]) -> list[Action]:
    """Slow calls, then as many failures as open it, then the cooldown."""
    failing = _named("F", config.failure_threshold)
    return [
        *_calls([*before, *failing]),
        *_ends(failing, "error"),
        Action("advance", seconds=config.cooldown_period),
    ]


def _cancel_frees(config: Any) -> list[Action]:
    return [*_opened(config, ["S"]), *_calls(["P"]), *_ends(["S"], "cancel"), *_calls(["Q"])]


def _stale_probe(config: Any) -> list[Action]:
    """As many probes as close it, each beside the last, whose slots early calls free; then one that fails."""
    many = config.half_open_success_threshold
    early, probes = _named("S", many), _named("P", many)
    beside = [
        action for s, p in zip(early, probes, strict=True) for action in (Action("call", p), *_ends([s], "cancel"))
    ]
    return [*_opened(config, early), *beside, *_calls(["Q"]), *_ends(["Q"], "error"), *_ends(probes, "ok")]


def _no_generations(config: Any) -> list[Action]:
    early = _named("S", config.failure_threshold)
    probes = _named("P", config.half_open_success_threshold)
    closing = [action for id in probes for action in (Action("call", id), *_ends([id], "ok"))]
    return [*_opened(config, early), *closing, *_ends(early, "error")]


def _hung_probe(config: Any) -> list[Action]:
    if config.probe_timeout is not None:
        return []  # then the toolkit's probe has a limit too
    hold = Action("advance", seconds=getattr(config, "probe_hold", 60.0))
    rest = Action("advance", seconds=config.cooldown_period)
    return [*_opened(config, []), *_calls(["P"]), hold, rest, *_calls(["Q"])]


def _between(config: Any) -> list[Action]:
    if config.failure_threshold < 2:
        return []  # one failure opens every breaker
    made = []
    for failing, well in zip(_named("F", config.failure_threshold), _named("W", config.failure_threshold), strict=True):
        made += [*_calls([well, failing]), *_ends([well], "ok"), *_ends([failing], "error")]
    return made


_SCRIPTS: tuple[tuple[str, str, Callable[[Any], list[Action]]], ...] = (
    ("cancel-frees-foreign-probe", "a cancelled bystander", _cancel_frees),
    ("stale-probe-decides", "a probe that is out of date", _stale_probe),
    ("no-generations", "failures from before the trouble", _no_generations),
    ("hung-probe", "a probe that hangs", _hung_probe),
    ("consecutive-or-window", "a success between failures", _between),
)
