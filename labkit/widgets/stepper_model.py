"""What the state stepper shows, without a front end: a session that is stepped, and the words and pictures of a view.

A learner's press is a mapping (`{"do": "call"}`), a view is plain data for the page. Nothing here decides what a
breaker does: `BreakerSession` does, with the real middleware.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from labkit.plots import Picture, find_row, state_cards, state_diagram
from labkit.plots.style import state_style
from labkit.policies import Transition
from labkit.policies.circuit_breaker import TRANSITIONS
from labkit.scenario import BreakerSession

if TYPE_CHECKING:
    from labkit.config import CircuitBreakerMiddlewareConfig
    from labkit.scenario.session import Step

__all__ = ["StepperModel"]

_STATES = ("CLOSED", "OPEN", "HALF_OPEN")
_ENDINGS = {"ok": "success", "error": "failure", "cancel": "cancellation"}
_TRIGGERS = {"succeeded": "success", "failed": "failure", "cancelled": "cancelled"}
_LONGEST_WAIT = 1e6  # seconds that may pass at one press


class StepperModel:
    """A breaker session with a learner in front of it.

    Args:
        config: the breaker's fields, as for `BreakerSession`.
        predict: ask what will happen before each step, and keep a tally.

    Attributes:
        session: the breaker underneath.
        predict: as given; the learner may switch it.
        asked, right: how many predictions were made, and how many came true.
    """

    def __init__(
        self, config: CircuitBreakerMiddlewareConfig | Mapping[str, Any] | None = None, *, predict: bool = True
    ) -> None:
        self.session = BreakerSession(config)
        self.predict = predict
        self.asked = 0
        self.right = 0
        self._question: dict[str, Any] | None = None
        self._verdict: dict[str, Any] | None = None
        self._notice = ""
        self._trouble = ""
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
        }

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what a learner pressed. One that cannot be done leaves everything as it is and says why in the view.

        Args:
            message: "do" names the press: "call"; "finish" with "id" and "outcome" (ok, error, cancel); "advance" with
                "seconds" as typed; "answer" with "state" and, for a call, "admitted" (yes, no); "skip" or "back" for a
                question that is open; "undo"; "reset"; "predict" with "on".
        """
        self._notice = self._trouble = ""
        do = self._presses.get(str(message.get("do")))
        if do is not None:
            do(message)

    def close(self) -> None:
        """End what is still in flight."""
        self.session.close()

    # -- presses

    def _step(self, message: Mapping[str, Any]) -> None:
        if self._question is not None:
            self._notice = "First say what you expect, or choose to see it without."
            return
        action: dict[str, Any] = {"do": message["do"]}
        if action["do"] == "finish":
            action |= {"id": str(message.get("id")), "outcome": str(message.get("outcome"))}
            flying = [flight.id for flight in self.session.in_flight]
            if action["outcome"] not in _ENDINGS or action["id"] not in flying:
                self._notice = (
                    "No such call is in flight any more." if flying else "No call is in flight; let one arrive."
                )
                return
        elif action["do"] == "advance":
            seconds, self._trouble = _seconds(message.get("seconds"))
            if self._trouble:
                return
            action["seconds"] = seconds
        if self.predict:
            self._question = action
        else:
            self._verdict = None
            self._do(action)

    def _do(self, action: Mapping[str, Any]) -> Step:
        if action["do"] == "call":
            return self.session.call()
        if action["do"] == "finish":
            return self.session.finish(action["id"], action["outcome"])
        return self.session.advance(action["seconds"])

    def _answer(self, message: Mapping[str, Any]) -> None:
        action = self._question
        if action is None:
            return
        state, admitted = message.get("state"), message.get("admitted")
        missing = [] if state in _STATES else ["the state"]
        if action["do"] == "call" and admitted not in ("yes", "no"):
            missing.insert(0, "whether the call gets through")
        if missing:
            self._notice = f"Choose {' and '.join(missing)} first."
            return
        self._question = None
        step = self._do(action)
        wrong = []
        if step.admitted is not None and (admitted == "yes") != step.admitted:
            wrong.append("the call was admitted" if step.admitted else "the call was rejected")
        if state != step.state:
            wrong.append(f"the breaker is {state_style(step.state).word}")
        self.asked += 1
        self.right += not wrong
        text = "As you said." if not wrong else f"Not as you said: {' and '.join(wrong)}."
        self._verdict = {"right": not wrong, "text": text}

    def _skip(self, message: Mapping[str, Any]) -> None:
        if self._question is not None:
            action, self._question, self._verdict = self._question, None, None
            self._do(action)

    def _back(self, message: Mapping[str, Any]) -> None:
        self._question = None

    def _undo(self, message: Mapping[str, Any]) -> None:
        self._question = self._verdict = None
        if not self.session.history:
            self._notice = "There is no step to take back."
            return
        self.session.undo()
        self._notice = "The last step is taken back."

    def _reset(self, message: Mapping[str, Any]) -> None:
        self._question = self._verdict = None
        self.session.reset()
        self._notice = "Everything is as at the beginning. The tally stays."

    def _switch(self, message: Mapping[str, Any]) -> None:
        self.predict = bool(message.get("on"))
        self._question = None

    # -- the view

    def view(self) -> dict[str, Any]:
        """What the page shows, as plain data."""
        step = self.session.history[-1] if self.session.history else None
        taken, current = self._taken(), self._state()
        return {
            "now": f"{self.session.now:g}",
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
            "gauges": self._gauges(step),
            "to_cooldown_end": self._rest(step),
            "history": self._history(),
            "wide": state_diagram(TRANSITIONS, current=current, taken=taken).svg(themed=True),
            "narrow": state_cards(TRANSITIONS, current=current, taken=taken, width=400.0).svg(themed=True),
        }

    def still(self) -> Picture:
        """The picture that stands for the stepper where no kernel runs."""
        return state_diagram(TRANSITIONS, current=self._state(), taken=self._taken(), title="State stepper")

    def words(self) -> str:
        """The stepper in one or two sentences, for where nothing but text is shown."""
        step = self.session.history[-1] if self.session.history else None
        return f"State stepper of a circuit breaker at {self.session.now:g} s. {self._sentence(step)}"

    def _state(self) -> str:
        return str(self.session.history[-1].state) if self.session.history else "CLOSED"

    def _sentence(self, step: Step | None) -> str:
        if step is not None:
            return step.sentence
        count = self.session.config.failure_threshold
        failures = "1 failure opens" if count == 1 else f"{count} failures in a row open"
        return f"The breaker is closed and has seen nothing yet; {failures} it. Let a call arrive."

    def _asking(self) -> dict[str, Any] | None:
        action = self._question
        if action is None:
            return None
        if action["do"] == "call":
            text = "A call arrives."
        elif action["do"] == "finish":
            text = f"{action['id']} ends with a {_ENDINGS[action['outcome']]}."
        else:
            text = f"{action['seconds']:g} s pass."
        return {"text": text, "about_admission": action["do"] == "call", "do": action["do"]}

    def _flights(self) -> list[dict[str, Any]]:
        return [
            {"id": flight.id, "kind": "probe" if flight.probe else "call", "since": f"{flight.started_at:g}"}
            for flight in self.session.in_flight
        ]

    def _gauges(self, step: Step | None) -> list[dict[str, Any]]:
        config = self.session.config
        failures, successes = (step.failures, step.successes) if step is not None else (0, 0)
        rest = step.retry_after if step is not None else None
        waited = config.cooldown_period - rest if rest is not None else 0.0
        probing = step is not None and step.probing
        return [
            _gauge("Failures in a row", failures, config.failure_threshold, "failure_threshold"),
            _gauge("Successful probes in a row", successes, config.half_open_success_threshold,
                   "half_open_success_threshold"),
            _gauge("Cooldown", waited, config.cooldown_period, "cooldown_period", "" if rest is None else
                   "over: the next call is a probe" if rest == 0.0 else f"{rest:g} s to go")
            | {"idle": rest is None},
            {"name": "Probe's slot", "text": "taken" if probing else "free", "key": "one probe at a time",
             "share": float(probing), "idle": self._state() != "HALF_OPEN"},
        ]  # fmt: skip

    def _rest(self, step: Step | None) -> str:
        return f"{step.retry_after:g}" if step is not None and step.retry_after else ""

    def _history(self) -> list[dict[str, str]]:
        rows = []
        for step in self.session.history:
            what = {"call": f"{step.id} arrives", "advance": "time passes"}.get(step.op, "")
            if step.op == "finish":
                what = f"{step.id}: {_ENDINGS[step.outcome or 'ok']}"
            decision = "" if step.admitted is None else "admitted" if step.admitted else "rejected"
            word = state_style(step.state).word
            rows.append({"at": f"{step.at:g}", "what": what, "decision": decision, "state": word})
        return rows

    def _taken(self) -> Transition | None:
        history = self.session.history
        if not history:
            return None
        before = history[-2] if len(history) > 1 else None
        return row_of(history[-1], before)


def row_of(step: Step, before: Step | None) -> Transition | None:
    """Return the row of the machine's table that a step took, or None where none was (time alone takes none).

    Args:
        step: the step.
        before: the step before it, or None where it is the first.
    """
    source = before.state if before is not None else "CLOSED"
    if step.op == "call":
        return find_row(TRANSITIONS, source, "call", step.state, effect="admitted" if step.admitted else "rejected")
    ended = next((event for event in step.events if event.kind in _TRIGGERS), None)
    if ended is None:
        return None
    trigger = _TRIGGERS[ended.kind]
    if trigger == "cancelled":
        if source != "HALF_OPEN":
            return find_row(TRANSITIONS, source, trigger, step.state)
        probing = "a" if before is not None and before.probing else "no"
        guard = "the probe" if ended.probe else f"not the probe, {probing} probe"
        return find_row(TRANSITIONS, source, trigger, step.state, guard=guard)
    if not ended.probe:
        return find_row(TRANSITIONS, source, trigger, step.state)
    effect = "successes" if trigger == "success" and step.successes else "counts" if trigger == "success" else ""
    return find_row(TRANSITIONS, source, f"probe {trigger}", step.state, effect=effect)


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
