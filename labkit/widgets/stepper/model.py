"""What the state stepper shows, without a front end: sessions that are stepped, and the words and pictures of a view.

A learner's press is a mapping (`{"do": "call"}`), a view is plain data for the page. Nothing here decides what a
breaker does: the sessions do, with the real middleware. `stepper_compare.py` has what is shown of several at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from labkit.plots import Picture, state_cards, state_diagram
from labkit.plots.draw.style import state_style
from labkit.policies import Transition
from labkit.session import BreakerSession
from labkit.session.session import breaker_config
from labkit.session.side_by_side import Action, BreakerSessions, Round, scripts, side_by_side
from labkit.widgets.stepper import compare as stepper_compare
from labkit.widgets.stepper.rows import TABLES, row_of

if TYPE_CHECKING:
    from labkit.session.steps import BreakerConfig, Step

__all__ = ["StepperModel", "row_of"]

_STATES = ("CLOSED", "OPEN", "HALF_OPEN")
_ENDINGS = {"ok": "success", "error": "failure", "cancel": "cancellation"}
_LONGEST_WAIT = 1e6  # seconds that may pass at one press


class StepperModel:
    """Breaker sessions with a learner in front of them.

    Args:
        config: the breaker's fields, as for `BreakerSession`.
        predict: ask what will happen before each step, and keep a tally.
        compare: show the toolkit's breaker, the guarded one and the window one side by side.
        interval: seconds in which the window breaker counts, when it stands beside the others.

    Attributes:
        sessions: the breakers underneath: one, or three side by side.
        compare: as given; the learner may switch it, where the configuration is not the window breaker's.
        predict: as given; the learner may switch it.
        asked, right: how many predictions were made, and how many came true.

    Raises:
        ConfigError: the breakers cannot stand side by side.
    """

    def __init__(
        self,
        config: BreakerConfig | Mapping[str, Any] | None = None,
        *,
        predict: bool = True,
        compare: bool = False,
        interval: float = 60.0,
    ) -> None:
        self.config = breaker_config(config)
        self.compare = compare
        self._interval = interval
        self.sessions = self._made()
        self.predict = predict
        self.asked = 0
        self.right = 0
        self._question: Action | None = None
        self._verdict: dict[str, Any] | None = None
        self._notice = ""
        self._trouble = ""
        self._diagram = ""  # the name of the breaker whose diagram is shown
        self._scripts = scripts(self.config)
        self._presses: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "call": self._step,
            "finish": self._step,
            "advance": self._step,
            "answer": self._answer,
            "skip": self._skip,
            "back": self._back,
            "undo": self._undo,
            "reset": self._reset,
            "predict": self._switch,
            "compare": self._compare,
            "try": self._try,
            "diagram": self._draw,
        }

    @property
    def session(self) -> BreakerSession:
        """The breaker underneath; of several the first, the toolkit's."""
        return next(iter(self.sessions.sessions.values()))

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what a learner pressed. One that cannot be done leaves everything as it is and says why in the view.

        Args:
            message: "do" names the press: "call"; "finish" with "id" and "outcome" (ok, error, cancel); "advance" with
                "seconds" as typed; "answer" with "state" and, for a call, "admitted" (yes, no; side by side: all, some,
                none, and alike or apart for the states); "skip" or "back" for a question that is open; "undo";
                "reset"; "predict" and "compare" with "on"; "try" with a script's "name"; "diagram" with "of".
        """
        self._notice = self._trouble = ""
        do = self._presses.get(str(message.get("do")))
        if do is not None:
            do(message)

    def close(self) -> None:
        """End what is still in flight."""
        self.sessions.close()

    def _made(self) -> BreakerSessions:
        if not self.compare:
            return BreakerSessions({stepper_compare.SHORT[self.config.type]: self.config})
        return BreakerSessions(side_by_side(self.config, interval=self._interval))

    # -- presses

    def _step(self, message: Mapping[str, Any]) -> None:
        if self._question is not None:
            self._notice = "First say what you expect, or choose to see it without."
            return
        action = Action(str(message["do"]))
        if action.op == "finish":
            action = action._replace(id=str(message.get("id")), outcome=str(message.get("outcome")))
            flying = [flight.id for flight in self.sessions.in_flight]
            if action.outcome not in _ENDINGS or action.id not in flying:
                self._notice = (
                    "No such call is in flight any more." if flying else "No call is in flight; let one arrive."
                )
                return
        elif action.op == "advance":
            seconds, self._trouble = _seconds(message.get("seconds"))
            if self._trouble:
                return
            action = action._replace(seconds=seconds)
        self._take(action)

    def _take(self, action: Action) -> None:
        if self.predict:
            self._question = action
        else:
            self._verdict = None
            self.sessions.do(action)

    def _answer(self, message: Mapping[str, Any]) -> None:
        action = self._question
        if action is None:
            return
        admissions, states = (
            (stepper_compare.ADMISSIONS, stepper_compare.STATES) if self.compare else (("yes", "no"), _STATES)
        )
        state, admitted = message.get("state"), message.get("admitted")
        missing = [] if state in states else ["the state"]
        if action.op == "call" and admitted not in admissions:
            missing.insert(0, "whether the call gets through")
        if missing:
            self._notice = f"Choose {' and '.join(missing)} first."
            return
        self._question = None
        made = self.sessions.do(action)
        wrong = (
            stepper_compare.wrong(made, admitted, state) if self.compare else self._wrong(made, admitted, str(state))
        )
        self.asked += 1
        self.right += not wrong
        text = "As you said." if not wrong else f"Not as you said: {' and '.join(wrong)}."
        self._verdict = {"right": not wrong, "text": text}

    def _wrong(self, made: Round, admitted: object, state: str) -> list[str]:
        step = next(each for each in made.steps.values() if each is not None)
        wrong = []
        if step.admitted is not None and (admitted == "yes") != step.admitted:
            wrong.append("the call was admitted" if step.admitted else "the call was rejected")
        if state != step.state:
            wrong.append(f"the breaker is {state_style(step.state).word}")
        return wrong

    def _skip(self, message: Mapping[str, Any]) -> None:
        if self._question is not None:
            action, self._question, self._verdict = self._question, None, None
            self.sessions.do(action)

    def _back(self, message: Mapping[str, Any]) -> None:
        self._question = None

    def _undo(self, message: Mapping[str, Any]) -> None:
        self._question = self._verdict = None
        if not self.sessions.history:
            self._notice = "There is no step to take back."
            return
        self.sessions.undo()
        self._notice = "The last step is taken back."

    def _reset(self, message: Mapping[str, Any]) -> None:
        self._question = self._verdict = None
        self.sessions.reset()
        self._notice = "Everything is as at the beginning. The tally stays."

    def _switch(self, message: Mapping[str, Any]) -> None:
        self.predict = bool(message.get("on"))
        self._question = None

    def _compare(self, message: Mapping[str, Any]) -> None:
        """Play what has happened through the others as well, or through the one that stays alone."""
        on = bool(message.get("on"))
        if on == self.compare or not self._scripts:
            return
        self.compare = on
        self._question = self._verdict = None
        old, self.sessions = self.sessions, self._made()
        self._diagram = ""
        for made in old.history:
            flying = [flight.id for flight in self.sessions.in_flight]
            if made.action.op == "finish" and made.action.id not in flying:
                continue  # it had been admitted only by a breaker that is gone
            self.sessions.do(made.action)
        old.close()

    def _try(self, message: Mapping[str, Any]) -> None:
        """Play a script from the beginning; before its last step, ask what that will do, where predictions are on."""
        script = next((each for each in self._scripts if each.name == message.get("name")), None)
        if script is None:
            return
        self._compare({"on": True})
        self._reset({})
        for action in script.actions[:-1]:
            self.sessions.do(action)
        self._take(script.actions[-1])
        self._notice = f"{len(script.actions)} steps were played: {script.label}."
        if self._question is not None:
            self._notice = f"{len(script.actions) - 1} of {len(script.actions)} steps were played: {script.label}."

    def _draw(self, message: Mapping[str, Any]) -> None:
        name = str(message.get("of"))
        if name in self.sessions.sessions:
            self._diagram = name

    # -- the view

    def view(self) -> dict[str, Any]:
        """What the page shows, as plain data."""
        history = self.session.history
        step = history[-1] if history else None
        current = self._state()
        name = self._diagram or next(iter(self.sessions.sessions))
        drawn = self.sessions.sessions[name]
        table, lit, taken = TABLES[drawn.config.type], _state_of(drawn), _taken(drawn)
        view = {
            "now": f"{self.sessions.now:g}",
            "state": current,
            "word": state_style(current).word,
            "sentence": self._sentence(step),
            "notice": self._notice,
            "trouble": self._trouble,
            "verdict": self._verdict,
            "tally": f"{self.right} of {self.asked} as predicted" if self.asked else "",
            "predict": self.predict,
            "question": self._asking(),
            "flights": self._flights(),
            "late": {flight.id: next(iter(flight.late.values())) for flight in self.sessions.in_flight if flight.late},
            "gauges": gauges_of(self.session),
            "to_cooldown_end": self._rest(),
            "history": self._history(),
            "wide": state_diagram(table, current=lit, taken=taken).svg(themed=True),
            "narrow": state_cards(table, current=lit, taken=taken, width=400.0).svg(themed=True),
            "compare": None,
            "can_compare": bool(self._scripts),
        }
        if self.compare:
            tries = [[script.name, script.label] for script in self._scripts]
            view["compare"] = stepper_compare.shown(self.sessions, gauges_of) | {"tries": tries, "diagram": name}
        return view

    def still(self) -> Picture:
        """The picture that stands for the stepper where no kernel runs."""
        if self.compare:
            return stepper_compare.ribbons(self.sessions)
        table = TABLES[self.session.config.type]
        return state_diagram(table, current=self._state(), taken=_taken(self.session), title="State stepper")

    def words(self) -> str:
        """The stepper in one or two sentences, for where nothing but text is shown."""
        step = self.session.history[-1] if self.session.history else None
        what = "three circuit breakers side by side" if self.compare else "a circuit breaker"
        return f"State stepper of {what} at {self.sessions.now:g} s. {self._sentence(step)}"

    def _state(self) -> str:
        return _state_of(self.session)

    def _sentence(self, step: Step | None) -> str:
        if self.compare:
            return stepper_compare.summary(self.sessions)
        if step is not None:
            return step.sentence
        config = self.session.config
        if config.type == "window_circuit_breaker" and config.failure_threshold is None:
            failures = f"a failure rate of {config.failure_rate:.0%} opens"
        else:
            count = config.failure_threshold or 0
            where = "in an interval" if config.type == "window_circuit_breaker" else "in a row"
            failures = "1 failure opens" if count == 1 else f"{count} failures {where} open"
        return f"The breaker is closed and has seen nothing yet; {failures} it. Let a call arrive."

    def _asking(self) -> dict[str, Any] | None:
        action = self._question
        if action is None:
            return None
        if action.op == "call":
            text = f"{action.id or 'A call'} arrives."
        elif action.op == "finish":
            text = f"{action.id} ends with a {_ENDINGS[action.outcome or 'ok']}."
        else:
            text = f"{action.seconds:g} s pass."
        asked: dict[str, Any] = {"text": text, "about_admission": action.op == "call", "do": action.op}
        return asked | {"fields": stepper_compare.FIELDS} if self.compare else asked

    def _flights(self) -> list[dict[str, Any]]:
        if self.compare:
            return stepper_compare.flights(self.sessions)
        return [
            {"id": flight.id, "kind": "probe" if flight.probe else "call", "since": f"{flight.started_at:g}"}
            for flight in self.session.in_flight
        ]

    def _rest(self) -> str:
        """The seconds until the next cooldown is over; side by side, of the first breaker that waits."""
        rests = [each.history[-1].retry_after for each in self.sessions.sessions.values() if each.history]
        return next((f"{rest:g}" for rest in rests if rest), "")

    def _history(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for made in self.sessions.history:
            action = made.action
            what = {"call": f"{action.id} arrives", "advance": "time passes"}.get(action.op, "")
            if action.op == "finish":
                what = f"{action.id}: {_ENDINGS[action.outcome or 'ok']}"
            row: dict[str, Any] = {"at": f"{made.at:g}", "what": what}
            if self.compare:
                rows.append(row | {"cells": stepper_compare.cells(made)})
                continue
            step = next(each for each in made.steps.values() if each is not None)
            decision = "" if step.admitted is None else "admitted" if step.admitted else "rejected"
            rows.append(row | {"decision": decision, "state": state_style(step.state).word})
        return rows


def gauges_of(session: BreakerSession) -> list[dict[str, Any]]:
    """What one breaker counts and waits for, as four gauges."""
    config = session.config
    step = session.history[-1] if session.history else None
    failures, successes = (step.failures, step.successes) if step is not None else (0, 0)
    rest = step.retry_after if step is not None else None
    many = 1
    if config.type == "window_circuit_breaker":
        asked, asked_key = config.half_open_successes, "half_open_successes"
        cooldown = step.cooldown if step is not None else config.open_duration
        wait, wait_key, many = "Timer", "open_duration", config.half_open_requests
        if config.failure_threshold is not None:
            counted = _gauge("Failures in this interval", failures, config.failure_threshold, "failure_threshold")
            counted["key"] += f", interval: {config.interval:g} s"
        else:
            calls, rate = step.calls if step is not None else 0, config.failure_rate or 1.0
            text = f"{failures} of {calls} calls"
            counted = _gauge("Failed in the window", failures / calls if calls else 0.0, rate, "failure_rate", text)
            counted["key"] += f", window: {config.window:g} s"
    else:
        counted = _gauge("Failures in a row", failures, config.failure_threshold, "failure_threshold")
        asked, asked_key = config.half_open_success_threshold, "half_open_success_threshold"
        cooldown, wait, wait_key = config.cooldown_period, "Cooldown", "cooldown_period"
    waited = cooldown - rest if rest is not None else 0.0
    probes = step.probes if step is not None else 0
    taken = ("taken" if probes else "free") if many == 1 else f"{probes} of {many} taken"
    over = "over: the next call is a probe"
    return [
        counted,
        _gauge("Successful probes in a row", successes, asked, asked_key),
        _gauge(wait, waited, cooldown, wait_key, "" if rest is None else over if rest == 0.0 else f"{rest:g} s to go")
        | {"idle": rest is None},
        {"name": "Probe's slot" if many == 1 else "Probes' slots", "text": taken,
         "key": "one probe at a time" if many == 1 else f"half_open_requests: {many}", "share": probes / many,
         "idle": _state_of(session) != "HALF_OPEN"},
    ]  # fmt: skip


def _state_of(session: BreakerSession) -> str:
    return str(session.history[-1].state) if session.history else "CLOSED"


def _taken(session: BreakerSession) -> Transition | None:
    """The row of the last step."""
    history, config = session.history, session.config
    if not history:
        return None
    by_rate = config.type == "window_circuit_breaker" and config.failure_rate is not None
    return row_of(history[-1], history[-2] if len(history) > 1 else None, config.type, by_rate)


def _gauge(name: str, value: float, most: float, key: str, text: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "text": f"{value:g} of {most:g}" if text is None else text or f"{most:g} s, not running",
        "key": f"{key}: {most:g}",
        "share": round(min(1.0, value / most), 4) if math.isfinite(most) else 0.0,
        "idle": False,
    }


def _seconds(typed: object) -> tuple[float, str]:
    """What was typed as a number of seconds, and what is wrong with it or ""."""
    text = str(typed if typed is not None else "").strip().removesuffix("s").strip().replace(",", ".")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds <= _LONGEST_WAIT:
        shown = f"“{str(typed)[:20]}”" if text else "nothing"
        return 0.0, f"Found {shown}; seconds are a number above 0 and up to {_LONGEST_WAIT:,.0f}, such as 2.5."
    return seconds, ""
