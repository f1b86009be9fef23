"""What was seen between the layers, told: one sentence a step, from the notes alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from labkit.scenario.run.trace import Trace
from labkit.services import FaultKind

__all__ = ["Ending", "FollowedStep", "Note", "Place", "tell"]


class Ending(NamedTuple):
    """What came out of a layer.

    Attributes:
        kind: "success" (a value), "unavailable" (a fallback's explicit outcome), "failure", "timeout", "rejection" or
            "cancelled".
        error: the exception's class, or "" for a value.
        text: the value or the exception in words; of a stream, its last chunk.
        chunks: of a stream, how many came.
        reason: why a retry gave it up, where one did.
    """

    kind: str
    error: str
    text: str
    chunks: int = 0
    reason: str = ""


class Note(NamedTuple):
    """Something that was seen.

    Attributes:
        at: seconds.
        layer: the middleware's name; "" for the dependency.
        kind: "in" or "out" (just outside the layer), or "event" (the layer said something).
        ending: what came out.
        event: what it said.
    """

    at: float
    layer: str
    kind: str
    ending: Ending | None
    event: Any


class Place(NamedTuple):
    """A layer.

    Attributes:
        name: in the configuration.
        config: its settings.
    """

    name: str
    config: Any


class FollowedStep(NamedTuple):
    """One step of a call's way.

    Attributes:
        layer: where: a middleware's name, the function's, or "caller".
        place: the same as a number: 0 for the outermost layer, the number of layers for the dependency, -1 for the
            caller.
        at: seconds of the run.
        direction: "in" (on its way to the dependency), "out" (on its way back) or "here" (something happens).
        what: the step in one or two words.
        kind: what travels: "" (the call), or as `Ending.kind`.
        sentence: the step in words.
    """

    layer: str
    place: int
    at: float
    direction: str
    what: str
    kind: str
    sentence: str


def tell(
    notes: Sequence[Note], places: Sequence[Place], function: str, trace: Trace, *, until: float | None
) -> list[FollowedStep]:
    """Tell the way of one call.

    Args:
        notes: of this call, in order.
        places: the layers, outermost first.
        function: what is called.
        trace: of the run, for what the service was told to do.
        until: when the run ended, if the call had not ended then.
    """
    return list(_Teller(notes, places, function, trace).steps(until))


class _Teller:
    def __init__(self, notes: Sequence[Note], places: Sequence[Place], function: str, trace: Trace) -> None:
        self.notes = notes
        self.places = places
        self.function = function
        self.trace = trace
        self.number = {place.name: index for index, place in enumerate(places)} | {"": len(places)}
        many = len(places) + 2
        self.visits = [0] * many  # how often each was entered since the one around it was
        self.entered = [0.0] * many
        self.inner: list[tuple[float, Ending] | None] = [None] * many  # what last came out of each since then
        self.said: list[list[Any]] = [[] for _ in range(many)]  # what each layer said since something came out of it

    def steps(self, until: float | None) -> Iterator[FollowedStep]:
        for index, note in enumerate(self.notes):
            place = self.number.get(note.layer)
            if place is None:  # a budget, say, which is no layer of this function
                continue
            if note.kind == "in":
                yield from self._in(note, place, index)
            elif note.kind == "event":
                yield from self._event(note, place)
            else:
                yield from self._out(note, place, index)
        if until is not None and self.notes:
            where = next(place for place in reversed(range(len(self.places) + 1)) if self._inside(place))
            name = self._name(where)
            yield self._step(
                where, until, "here", "still there", "", f"When the run ended, the call was still in {name}."
            )

    def _inside(self, place: int) -> bool:
        """Whether the call has gone in there and not come out."""
        return self.visits[place] > 0 and self.inner[place] is None

    # ------------------------------------------------------------------------------------------------------- what is in

    def _in(self, note: Note, place: int, index: int) -> Iterator[FollowedStep]:
        before = self.inner[place]
        self.visits[place] += 1
        self.entered[place], self.inner[place] = note.at, None
        self.visits[place + 1], self.inner[place + 1], self.said[place] = 0, None, []
        if before is not None and place:
            yield self._again(before[0], note.at, place - 1)
        if place == len(self.places):
            who = "It reaches" if place else "The call reaches"
            yield self._step(place, note.at, "in", "reached", "", f"{who} {self.function}{self._does(note.at)}.")
            return
        if self._speaks(place, index):
            return  # the layer itself says at once what becomes of it
        name, config = self.places[place]
        verb = self._comes(place)
        if config.type_ == "timeout":
            yield self._step(
                place, note.at, "in", "clock starts", "",
                f"{verb} {name}, whose clock starts: everything inside has {config.timeout:g} s.",
            )  # fmt: skip
        elif config.type_ == "retry":
            text = f"{verb} {name}, which sends in attempt 1 of at most {config.attempts}."
            yield self._step(place, note.at, "in", "attempt 1", "", text)
        elif config.type_ == "fallback":
            yield self._step(place, note.at, "in", "passes on", "", f"{verb} {name}, which lets it in and waits.")
        else:
            yield self._step(place, note.at, "in", "enters", "", f"{verb} {name}.")

    def _speaks(self, place: int, index: int) -> bool:
        after = self.notes[index + 1 : index + 2]
        return any(one.kind == "event" and one.layer == self.places[place].name for one in after)

    def _comes(self, place: int) -> str:
        return "The call comes to" if place == 0 else "It comes to"

    def _does(self, at: float) -> str:
        """What the service was told to do then."""
        for period in self.trace.faults:
            if period.start <= at < period.end and not period.is_capacity:
                return f", which {FaultKind(period.fault).meaning}"
        return ", which works on it"

    def _again(self, since: float, at: float, place: int) -> FollowedStep:
        name, config = self.places[place]
        number = self.visits[place + 1]
        most = f" of at most {config.attempts}" if config.type_ == "retry" else ""
        pause = f"waits {_s(at - since)}, then sends in" if at > since else "sends in"
        return self._step(place, since, "here", f"attempt {number}", "", f"{name} {pause} attempt {number}{most}.")

    # ----------------------------------------------------------------------------------------------- what a layer says

    def _event(self, note: Note, place: int) -> Iterator[FollowedStep]:
        event = note.event
        if not hasattr(event, "state") and not hasattr(event, "running"):  # a budget, asked by a retry elsewhere
            gives = "gives a token for" if event.kind == "admitted" else "has no token left for"
            text = f"{self.places[place].name} {gives} another attempt."
            yield self._step(place, note.at, "here", event.kind, "", text)
            return
        if self.inner[place + 1] is not None:
            self.said[place].append(event)  # told with what comes out
            return
        if event.kind not in ("admitted", "rejected", "queued"):
            return
        name, config = self.places[place]
        verb = self._comes(place)
        if hasattr(event, "state"):
            yield self._admission(event, place, verb, name)
        elif event.kind == "queued":
            yield self._step(
                place, note.at, "in", "waits", "",
                f"{verb} {name}: all {config.max_concurrent} places are taken, so it waits in the queue.",
            )  # fmt: skip
        elif event.kind == "rejected":
            waited = note.at > self.entered[place]
            why = (
                f"no place came free within {_s(note.at - self.entered[place])}"
                if waited
                else f"{_of(config.max_concurrent, 'place')} taken"
            )
            yield self._step(
                place, note.at, "in", "turned away", "rejection", f"{verb} {name}: {why}. It is turned away."
            )
        elif note.at > self.entered[place]:
            waited_for = _s(note.at - self.entered[place])
            yield self._step(place, note.at, "in", "admitted", "", f"After {waited_for} it gets a place of {name}.")
        else:
            taken = f"takes place {event.running} of {config.max_concurrent}"
            yield self._step(place, note.at, "in", "admitted", "", f"{verb} {name} and {taken}.")

    def _admission(self, event: Any, place: int, verb: str, name: str) -> FollowedStep:
        state = _state(event)
        if event.kind == "rejected":
            return self._step(
                place, event.at, "in", "rejected", "rejection",
                f"{verb} {name}, which is {state} and rejects it: nothing inside hears of it.",
            )  # fmt: skip
        if event.probe:
            return self._step(
                place, event.at, "in", "probe", "", f"{verb} {name}, which is {state} and admits it as its probe."
            )
        failures = getattr(event, "failures", 0)
        so_far = f", with {_many(failures, 'failure')} so far" if failures else ""
        return self._step(
            place, event.at, "in", "admitted", "", f"{verb} {name}, which is {state} and admits it{so_far}."
        )

    # ------------------------------------------------------------------------------------------------ what comes out

    def _out(self, note: Note, place: int, index: int) -> Iterator[FollowedStep]:
        ending = note.ending
        assert ending is not None
        inner = self.inner[place + 1]
        if ending.kind == "cancelled" and (inner is None or inner[1].kind != "cancelled"):
            yield from self._cut_off(note, index)
        self.inner[place] = (note.at, ending)
        if place == len(self.places):
            yield self._from_service(note, ending, place)
        else:
            if inner is not None and note.at > inner[0] and ending.kind == "cancelled":
                yield self._step(
                    place, note.at, "out", "cancelled", "cancelled",
                    f"The cancellation ends the wait of {self.places[place].name}, {_s(note.at - inner[0])} long.",
                )  # fmt: skip
            else:
                yield self._from_layer(note, ending, place, inner[1] if inner else None)
            self.said[place] = []
        if place == 0:
            took = _s(note.at - self.entered[0])
            yield self._step(
                -1, note.at, "out", _short(ending), ending.kind, f"The caller gets {_what(ending)}, after {took}."
            )

    def _cut_off(self, note: Note, index: int) -> Iterator[FollowedStep]:
        """Whose limit it was that sent a cancellation inward: the first layer from which it comes out as a time-out."""
        for other in self.notes[index + 1 :]:
            if other.kind != "out":
                continue
            place = self.number[other.layer]
            assert other.ending is not None
            if other.ending.kind == "cancelled":
                continue
            if other.ending.kind == "timeout":
                name = self.places[place].name
                yield self._step(
                    place, note.at, "here", "limit runs out", "timeout",
                    f"{_s(note.at - self.entered[place])} are over: the limit of {name} runs out, "
                    "and it cancels whatever is inside.",
                )  # fmt: skip
            return
        yield self._step(-1, note.at, "here", "gives up", "cancelled", "The caller gives up, and cancels its call.")

    def _from_service(self, note: Note, ending: Ending, place: int) -> FollowedStep:
        took = _s(note.at - self.entered[place])
        name = self.function
        after = f"after {took}" + (f" and {_many(ending.chunks, 'chunk')}" if ending.chunks else "")
        what, text = "fails", f"{name} fails {after}: {ending.error} ({ending.text})."
        if ending.kind == "cancelled":
            what, text = "cancelled", f"The cancellation reaches {name} and ends the attempt, {took} after it began."
        elif not ending.error:
            what, text = "answers", f"{name} answers {after}: {ending.text}."
        return self._step(place, note.at, "out", what, ending.kind, text)

    def _from_layer(self, note: Note, ending: Ending, place: int, inner: Ending | None) -> FollowedStep:
        name, config = self.places[place]
        passed = f"passes {_what(ending)} on"
        what, text = "passes on", f"{name} {passed}."
        counted = next((event for event in self.said[place] if event.kind in _COUNTED), None)
        if inner is None:  # it never went further in
            what, text = _short(ending), f"{name} raises {_what(ending)}, which travels outward."
            if ending.kind == "cancelled":
                text = f"The cancellation ends the call at {name}, before it went further in."
        elif counted is not None and hasattr(counted, "state"):
            what, text = self._verdict(name, config, counted, self.said[place], ending, passed)
        elif ending.kind == "timeout" and inner.kind == "cancelled":
            what, text = "TimeoutError", f"{name} turns the cancellation into a TimeoutError, which travels outward."
        elif ending.kind == "unavailable" and inner.kind != "unavailable":
            what = "answers instead"
            text = f"{name} answers in place of {_what(inner)}: “unavailable”. From here on it is a success."
        elif config.type_ == "retry" and ending.error and ending.kind != "cancelled":
            what = "gives up"
            why = f": {ending.reason}" if ending.reason else f" at once: {ending.error} is not retried"
            text = f"{name} gives up{why}. It {passed}."
        elif config.type_ == "timeout":
            text = f"{name} stops its clock after {_s(note.at - self.entered[place])} and {passed}."
        elif config.type_ == "bulkhead":
            text = f"{name} frees the place and {passed}."
        elif config.type_ == "fallback" and ending.error and ending.kind != "cancelled":
            text = f"{name} does not answer for the {ending.error}, and passes it on."
        return self._step(place, note.at, "out", what, ending.kind, text)

    def _verdict(
        self, name: str, config: Any, event: Any, said: Sequence[Any], ending: Ending, passed: str
    ) -> tuple[str, str]:
        """What a breaker made of it, as it says itself."""
        changed = next((one for one in said if one.kind in _CHANGES), None)
        what = _COUNTED[event.kind]
        after = f", and is {_state(changed)} now" if changed is not None else ""
        if event.kind == "cancelled":
            return what, f"{name} hears of a cancellation, and counts it neither way{after}. It {passed}."
        if event.kind == "succeeded":
            return what, f"{name} counts a success{after}. It {passed}."
        if not after and _state(event) != "closed":
            return what, f"{name} hears of a failure; it is {_state(event)} already. It {passed}."
        threshold = getattr(config, "failure_threshold", None)
        in_row = config.type_ != "window_circuit_breaker" and not event.probe and threshold
        count = f", {event.failures} of the {threshold} in a row that open it" if in_row else ""
        if after:
            what = f"counts, {_state(changed)}"
        return what, f"{name} counts a failure{count}{after}. It {passed}."

    # -------------------------------------------------------------------------------------------------------- the words

    def _name(self, place: int) -> str:
        return "caller" if place < 0 else self.function if place == len(self.places) else self.places[place].name

    def _step(self, place: int, at: float, direction: str, what: str, kind: str, sentence: str) -> FollowedStep:
        return FollowedStep(self._name(place), place, at, direction, what, kind, sentence)


_COUNTED = {"failed": "counts a failure", "succeeded": "counts a success", "cancelled": "counts nothing"}
_CHANGES = ("opened", "half_opened", "closed")


def _state(event: Any) -> str:
    return str(event.state).lower().replace("_", "-")


def _short(ending: Ending) -> str:
    return {"success": "answer", "unavailable": "unavailable"}.get(ending.kind, ending.error)


def _what(ending: Ending) -> str:
    if ending.kind == "cancelled":
        return "the cancellation"
    if ending.kind == "unavailable":
        return "“unavailable”"
    if ending.error:
        return f"the {ending.error}"
    return "the answer"


def _s(seconds: float) -> str:
    return f"{round(seconds, 2):g} s"


def _many(number: int, word: str) -> str:
    return f"{number:,} {word if number == 1 else word + 's'}"


def _of(number: int, word: str) -> str:
    return f"the only {word} is" if number == 1 else f"all {number} {word}s are"
