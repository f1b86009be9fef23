"""What the state stepper shows of several breakers on one history: a column each, and in words where they part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.plots import Picture
from labkit.plots.draw.style import state_style
from labkit.plots.machines.step_ribbons import StepCell, step_ribbons
from labkit.session import BreakerSession
from labkit.session.side_by_side import BreakerSessions, Round, SharedFlight

__all__ = [
    "ADMISSIONS",
    "FIELDS",
    "SHORT",
    "STATES",
    "cells",
    "flights",
    "ribbons",
    "shown",
    "summary",
    "wrong",
]

#: What a breaker is called beside others, by its `_type`.
SHORT: Mapping[str, str] = {
    "circuit_breaker": "toolkit",
    "guarded_circuit_breaker": "guarded",
    "window_circuit_breaker": "window",
}
_TITLES = {
    "toolkit": ("The toolkit’s", "NeMo Agent Toolkit 1.9.0"),
    "guarded": ("Guarded", "labkit’s, faults mended"),
    "window": ("Window", "labkit’s, after Azure"),
}
ADMISSIONS = ("all", "some", "none")
STATES = ("alike", "apart")

#: What a learner is asked about several breakers: name, question, answers.
FIELDS: Sequence[Sequence[Any]] = [
    ["admitted", "Who lets the call through?", [["all", "all three"], ["some", "not all of them"], ["none", "none"]]],
    ["state", "Are the three in one state then?", [["alike", "in one state"], ["apart", "not in one state"]]],
]
_ENDS = {"ok": "succeeds", "error": "fails", "cancel": "is cancelled"}
_LABELS = {"ok": "success", "error": "failure", "cancel": "cancel"}


def shown(sessions: BreakerSessions, gauges: Callable[[BreakerSession], list[dict[str, Any]]]) -> dict[str, Any]:
    """A column for each breaker, and the ribbons of all."""
    last = sessions.history[-1] if sessions.history else None
    columns: list[dict[str, Any]] = []
    for name, session in sessions.sessions.items():
        step = session.history[-1] if session.history else None
        title, under = _TITLES[name]
        state = str(step.state) if step is not None else "CLOSED"
        took_part = last is None or last.steps[name] is not None
        sentence = step.sentence if step is not None and took_part else ""
        if last is not None and not took_part:
            sentence = f"{last.action.id} is not in flight here: it was rejected, or has ended."
        columns.append(
            {
                "name": name,
                "title": title,
                "under": under,
                "type": session.config.type,
                "state": state,
                "word": state_style(state).word,
                "decision": _decision(last, name),
                "sentence": sentence,
                "fault": (step.fault or "") if step is not None and took_part else "",
                "gauges": gauges(session),
                "differs": [],
            }
        )
    _mark(columns, "state", [column["state"] for column in columns])
    _mark(columns, "decision", [column["decision"] for column in columns])
    for place in range(len(columns[0]["gauges"])):
        _mark(columns, place, [(column["gauges"][place]["text"], column["gauges"][place]["idle"])
                               for column in columns])  # fmt: skip
    return {
        "columns": columns,
        "names": [column["title"] for column in columns],
        "steps_wide": ribbons(sessions).svg(themed=True),
        "steps_narrow": ribbons(sessions, 450.0).svg(themed=True),
    }


def _mark(columns: Sequence[dict[str, Any]], what: object, values: Sequence[object]) -> None:
    for column, odd in zip(columns, _odd(values), strict=True):
        if odd:
            column["differs"].append(what)


def _odd(values: Sequence[object]) -> list[bool]:
    """Which of the values part from the others: those that most do not share; all, where no two are alike."""
    if len(set(values)) == 1:
        return [False] * len(values)
    common = max(values, key=values.count)
    shared = values.count(common) > 1
    return [not shared or value != common for value in values]


def _decision(made: Round | None, name: str) -> str:
    if made is None or made.action.op != "call":
        return ""
    step = made.steps[name]
    if step is None or step.admitted is None:
        return ""
    if not step.admitted:
        return "rejected"
    return "probe" if any(event.kind == "admitted" and event.probe for event in step.events) else "admitted"


def ribbons(sessions: BreakerSessions, width: float = 860.0) -> Picture:
    """The picture of the whole history."""
    steps = [_labels(made) for made in sessions.history]
    names = list(sessions.sessions)
    rows: dict[str, list[StepCell]] = {name: [] for name in names}
    taken = dict.fromkeys(names, 0)  # how many probes each has in flight
    for made in sessions.history:
        taken |= {name: step.probes for name, step in made.steps.items() if step is not None}
        apart = [_odd([made.states[name] for name in names]), _odd([_admitted(made, name) for name in names]),
                 _odd([taken[name] for name in names])]  # fmt: skip
        for place, name in enumerate(names):
            rows[name].append(StepCell(made.states[name], _cell(made, name), any(odd[place] for odd in apart)))
    return step_ribbons(steps, list(rows.items()), width=width, title="Three breakers on one history")


def _admitted(made: Round, name: str) -> object:
    step = made.steps[name]
    return step.admitted if step is not None else None


def _labels(made: Round) -> tuple[str, str]:
    action = made.action
    if action.op == "advance":
        return f"{action.seconds:g} s", "pass"
    return action.id or "", "arrives" if action.op == "call" else _LABELS[action.outcome or "ok"]


def _cell(made: Round, name: str) -> str:
    if made.action.op == "finish" and made.steps[name] is None:
        return "not here"
    step = made.steps[name]
    if step is not None and step.fault is not None and made.action.op == "finish":
        return "a fault"
    if step is not None and step.late:
        return "late"
    return _decision(made, name)


def cells(made: Round) -> list[str]:
    """A row of the table of steps: what each breaker decided, and its state after it."""
    return [
        ", ".join(word for word in (_cell(made, name), state_style(state).word) if word)
        for name, state in made.states.items()
    ]


def flights(sessions: BreakerSessions) -> list[dict[str, Any]]:
    """The calls in flight, and in which breakers."""
    names = tuple(sessions.sessions)
    return [
        {
            "id": flight.id,
            "kind": "probe" if flight.probe else "call",
            "since": f"{flight.started_at:g}",
            "where": _where(flight, names),
        }
        for flight in sessions.in_flight
    ]


def _where(flight: SharedFlight, names: tuple[str, ...]) -> str:
    words = [] if flight.where == names else [f"in flight in: {', '.join(flight.where)}"]
    if flight.probe and flight.probe != flight.where:
        words.append(f"a probe in: {', '.join(flight.probe)}")
    return "; ".join(words)


def summary(sessions: BreakerSessions) -> str:
    """The last step in a few sentences: what happened, who decided how, where the breakers are."""
    if not sessions.history:
        return (
            "Three breakers are closed and have seen nothing yet; what you press happens to all of them. "
            "Let a call arrive, or try a known fault."
        )
    made = sessions.history[-1]
    action = made.action
    if action.op == "advance":
        told = [f"{action.seconds:g} s pass; it is {made.at:g} s."]
    elif action.op == "finish":
        where = [name for name, step in made.steps.items() if step is not None]
        only = "" if len(where) == len(made.steps) else f" in: {', '.join(where)}"
        told = [f"{action.id} {_ENDS[action.outcome or 'ok']}{only}."]
    else:
        told = [f"{action.id} arrives. {_admissions(made)}"]
    for name, step in made.steps.items():
        if step is not None and step.fault is not None:
            told.append(f"A fault of 1.9.0 shows ({name}): {step.fault}.")
    states = _grouped({name: state_style(state).word for name, state in made.states.items()})
    if len(states) == 1:
        told.append(f"All are {next(iter(states))}.")
    else:
        told.append(f"They differ: {'; '.join(f'{_joined(names)} {word}' for word, names in states.items())}.")
    return " ".join(told)


def _admissions(made: Round) -> str:
    groups = _grouped({name: "let it through" if _admitted(made, name) else "reject it" for name in made.steps})
    if len(groups) == 1:
        return f"All {next(iter(groups))}."
    one = {"let it through": "lets it through", "reject it": "rejects it"}
    listed = [f"{_joined(names)} {verb if len(names) > 1 else one[verb]}" for verb, names in groups.items()]
    return f"{'; '.join(listed)}.".capitalize()


def _grouped(words: Mapping[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, word in words.items():
        groups.setdefault(word, []).append(name)
    return groups


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names)


def wrong(made: Round, admitted: object, state: object) -> list[str]:
    """What of a prediction did not come true, in words.

    Args:
        made: the press that was predicted.
        admitted: which breakers were said to let a call through: "all", "some" or "none".
        state: whether their states were said to be alike or apart.
    """
    found = []
    through = [_admitted(made, name) for name in made.steps]
    if made.action.op == "call":
        true = "all" if all(through) else "some" if any(through) else "none"
        if admitted != true:
            found.append(
                {"all": "all let it through", "some": "not all let it through", "none": "none let it through"}[true]
            )
    alike = len(set(made.states.values())) == 1
    if (state == "alike") != alike:
        found.append("they are in one state" if alike else "they are not in one state")
    return found
