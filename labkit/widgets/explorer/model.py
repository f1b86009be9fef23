"""What every explorer is without a front end: settings, the scenario that they stand for, a run, a picture, a sentence.

An explorer of its own says which controls it has, how their values become a scenario, what is drawn of the run and
what is said of it. The rest is here: reading what was set, saying beside a control what is wrong with it and keeping
the last good picture, the YAML, the line of code that rebuilds it, predict-first with its tally. No rule of a policy,
no number: those come from the scenario, its trace and its metrics.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from labkit.errors import LabkitError
from labkit.plots import Picture
from labkit.plots.draw.caption import captioned
from labkit.scenario import Scenario, Trace, load_scenario, metrics, run_scenario, story
from labkit.widgets.explorer.controls import Control

__all__ = ["ExplorerModel", "Question", "Run", "Shown"]


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario, run.

    Attributes:
        scenario: what was run.
        trace: what happened.
        numbers: its metrics over everything.
        functions: its metrics by function.
    """

    scenario: Scenario
    trace: Trace
    numbers: Mapping[str, Any]
    functions: Mapping[str, Mapping[str, Any]]

    def told(self) -> list[str]:
        """The run in sentences: what the breakers did first, how it was set up last."""
        told = story(self.trace, {"all": self.numbers, "functions": self.functions})
        first = [one for one in told if one.startswith(("The breaker", "The breakers", "No breaker"))][:1]
        return [*first, *(one for one in told[1:] if one not in first), told[0]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What an explorer shows of its runs.

    Attributes:
        picture: for a page of full width.
        narrow: for a narrow one, or None to show the same.
        sentences: what happened and why, most important first.
        facts: a few numbers that matter: name, value in words.
        extra: further plain data for an explorer's own script.
    """

    picture: Picture
    sentences: Sequence[str]
    narrow: Picture | None = None
    facts: Sequence[tuple[str, str]] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """What the learner is asked about the next run, in predict-first.

    Attributes:
        text: the question.
        options: value and words of each answer.
    """

    text: str
    options: tuple[tuple[str, str], ...]


class ExplorerModel:
    """The base. A subclass sets the class attributes and overrides what it has to.

    Attributes:
        name: the function that makes it, such as "outage_explorer".
        title: what it is called, for a screen reader and the picture's words.
        controls: in the order in which they stand.
        groups: heading and keys of the controls under it; all in one without a heading by default.
        base: the scenario that the controls bend: YAML text, or the name of one that comes with labkit.
        defaults: the value of each control at first, by key.
        settings: the values now.
        predict: whether it asks before it shows.
        asked, right: how many predictions were made, and how many came true.

    Args:
        predict: ask before each run is shown. The learner can switch it.
        settings: values of controls that differ from the defaults.

    Raises:
        LabkitError: a setting is unknown or out of range; one sentence.
    """

    name: ClassVar[str] = "explorer"
    title: ClassVar[str] = "Explorer"
    controls: ClassVar[tuple[Control, ...]] = ()
    groups: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    base: ClassVar[str] = ""
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, *, predict: bool = False, **settings: Any) -> None:
        _freeze_once()
        self.predict = predict
        self.asked = 0
        self.right = 0
        self._controls = {control.key: control for control in self.controls}
        self.settings: dict[str, Any] = dict(self.defaults)
        self._bases: dict[str, Scenario] = {}
        self._trouble: dict[str, str] = {}
        self._notice = ""
        self._verdict: dict[str, Any] | None = None
        self._asking: dict[str, Any] | None = None  # the settings that wait for a prediction
        self._narrow = False
        self.narrow_width = 480.0
        self.changed = ""
        values = self._read(settings)
        if self._trouble:
            raise LabkitError(" ".join(self._trouble.values()))
        self.settings.update(values)
        trouble = self.check(self.settings)
        if trouble:
            raise LabkitError(" ".join(trouble.values()))
        self.runs = self.run(self.settings)
        self.shown = self.show(self.runs, self.settings)

    # ------------------------------------------------------------------------------------------ what a subclass says

    def values(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Values by path for the base scenario; by default those of the controls that have a path."""
        return {control.path: control.yaml(settings[control.key]) for control in self.controls if control.path}

    def scenarios(self, settings: Mapping[str, Any]) -> dict[str, Scenario]:
        """The scenarios to run, by a name for each; by default one."""
        return {"": self.bend(self.base, self.values(settings))}

    def bend(self, base: str, values: Mapping[str, Any]) -> Scenario:
        """A base scenario with values set; the base is read once."""
        found = self._bases.get(base)
        if found is None:
            found = self._bases[base] = load_scenario(base)
        return found.with_values(values, origin="the control")

    def check(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with values that are each in range, a sentence by control; "" for the whole."""
        return {}

    def show(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> Shown:
        """Draw and tell."""
        raise NotImplementedError

    def question(self, settings: Mapping[str, Any]) -> Question | None:
        """What to ask about a run with these settings, or None."""
        return None

    def answer(self, runs: Mapping[str, Run], settings: Mapping[str, Any]) -> str:
        """The value of the option that came true."""
        raise NotImplementedError

    def run(self, settings: Mapping[str, Any]) -> dict[str, Run]:
        """Run the scenarios of these settings."""
        found = {}
        for name, scenario in self.scenarios(settings).items():
            trace = run_scenario(scenario)
            numbers = metrics(trace)
            found[name] = Run(scenario, trace, numbers["all"], numbers["functions"])
        return found

    # --------------------------------------------------------------------------------------------- what a learner does

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what a learner did.

        Args:
            message: "do" names it: "set" with "values" (by key, as typed); "reset"; "predict" with "on"; "answer" with
                "value"; "skip" for a question that is open; "narrow" with "on".
        """
        do = str(message.get("do"))
        if do in ("set", "reset"):
            self._notice, self._verdict = "", None
            if do == "set":
                values = message.get("values")
                self._set(values if isinstance(values, Mapping) else {})
            else:
                self._trouble = {}
                self._take(dict(self.defaults))
                self._notice = "Everything is as at the beginning. The tally stays."
        elif do == "answer":
            self._answer(message.get("value"))
        elif do == "skip":
            self._take(self._asking)
        elif do == "predict":
            self.predict = bool(message.get("on"))
            if not self.predict:
                self._take(self._asking)
        elif do == "narrow":
            self._narrow = bool(message.get("on"))
            width = message.get("width")
            if isinstance(width, int):
                self.narrow_width = float(min(620, max(400, width)))
            self.shown = self.show(self.runs, self.settings)
        else:
            self.act(do, message)

    def act(self, do: str, message: Mapping[str, Any]) -> None:
        """Do what only this explorer knows; unknown words are passed over."""

    def _read(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """What was typed as values, those that are sound; the trouble with the others is kept."""
        from labkit.config import nearest

        self._trouble = {}
        values = {}
        for key, each in typed.items():
            control = self._controls.get(key)
            if control is None:
                near = nearest(key, self._controls)
                hint = f"did you mean '{near}'?" if near else f"there are {', '.join(self._controls)}."
                self._trouble[""] = f"{self.name} has no setting '{key}'; {hint}"
                continue
            value, trouble = control.read(each)
            if trouble:
                self._trouble[key] = trouble
            else:
                values[key] = value
        return values

    def _set(self, typed: Mapping[str, Any]) -> None:
        settings = {**self.settings, **(self._asking or {}), **self._read(typed)}
        together = self.check(settings)
        if together:
            self._trouble |= together
            return
        if settings == self.settings:
            self._asking = None if not self._trouble else self._asking
            return
        if self.predict and self.question(settings) is not None:
            self._asking = settings
            return
        self._take(settings)

    def _take(self, settings: Mapping[str, Any] | None) -> None:
        """Run with these settings and show it; what cannot be run is said, and the last good picture stays."""
        self._asking = None
        if settings is None:
            return
        try:
            runs = self.run(settings)
            shown = self.show(runs, settings)
        except LabkitError as error:
            self._trouble = {"": str(error)}
            return
        self.changed = self._told_change(settings, shown)
        self.settings, self.runs, self.shown = dict(settings), runs, shown

    def _told_change(self, settings: Mapping[str, Any], shown: Shown) -> str:
        """What was changed, and what became of it, in a sentence."""
        moved = [
            f"{control.label} {control.words(self.settings[key])} → {control.words(settings[key])}"
            for key, control in self._controls.items()
            if settings[key] != self.settings[key]
        ]
        if not moved:
            return ""
        before = dict(self.shown.facts)
        became = [
            f"{name} {before[name]} → {value}"
            for name, value in shown.facts
            if name in before and before[name] != value
        ]
        what = f"{moved[0]} and {len(moved) - 1} more" if len(moved) > 2 else " and ".join(moved)
        if became:
            return f"{what}: {'; '.join(became[:_TOLD])}."
        if list(shown.sentences) == list(self.shown.sentences):
            return f"{what}: nothing changed in this run."
        return f"{what}: these numbers stay; the story has changed."

    def _answer(self, value: Any) -> None:
        settings = self._asking
        if settings is None:
            return
        question = self.question(settings)
        words = dict(question.options) if question is not None else {}
        if value not in words:
            self._notice = "Choose an answer first."
            return
        self._notice, self._trouble = "", {}  # what was wrong beside another control does not matter any more
        self._take(settings)
        if not self._trouble:
            self._judge(value, words)

    def _judge(self, value: Any, words: Mapping[str, str]) -> None:
        """Say whether a prediction came true, and count it."""
        true = self.answer(self.runs, self.settings)
        self.asked += 1
        self.right += value == true
        text = "As you said." if value == true else f"Not as you said: {words.get(true, true)}."
        self._verdict = {"right": value == true, "text": text}

    def close(self) -> None:
        """Let go of everything."""
        self.runs = {}
        self._bases.clear()

    # -------------------------------------------------------------------------------------------------------- the view

    def view(self) -> dict[str, Any]:
        """What the page shows, as plain data."""
        settings = {**self.settings, **(self._asking or {})}
        question = self.question(settings) if self._asking is not None else None
        shown = self.shown
        narrow = shown.narrow.svg(themed=True) if shown.narrow is not None else ""
        yaml, of_toolkit = self.yaml()
        return {
            "title": self.title,
            "controls": [control.shown(settings[control.key]) for control in self.controls],
            "groups": [[heading, list(keys)] for heading, keys in self.groups],
            "trouble": dict(self._trouble),
            "notice": self._notice,
            "sentences": list(shown.sentences),
            "facts": [list(fact) for fact in shown.facts],
            "svg": shown.picture.svg(themed=True),
            "narrow": narrow if self._narrow else None,  # None: nobody has asked for it yet
            "yaml": yaml,
            "of_toolkit": of_toolkit,
            "changed": self.changed if self._asking is None else "",
            "share": self.line(),
            "predict": self.predict,
            "can_predict": self.question(self.settings) is not None,
            "question": None
            if question is None
            else {"text": question.text, "options": [list(option) for option in question.options]},
            "verdict": self._verdict,
            "tally": f"{self.right} of {self.asked} as predicted" if self.asked else "",
            "extra": dict(shown.extra),
        }

    def yaml(self) -> tuple[str, bool]:
        """The YAML that the controls stand for, and whether the real toolkit would load its stack as well."""
        run = next(iter(self.runs.values()), None)
        if run is None:
            return "", False
        types = {one.type_ for one in run.scenario.stack.middleware.values()}
        return run.scenario.text(_SECTIONS), types <= _OF_THE_TOOLKIT

    def line(self) -> str:
        """One line of code that rebuilds the explorer, in any notebook."""
        made = self.share()
        if self.predict:
            made = f"{made[:-1]}{'' if made.endswith('()') else ', '}predict=True)"
        return f"from labkit import {self.name}; {made}"

    def share(self) -> str:
        """The call that makes an explorer with these settings."""
        changed = [f"{key}={value!r}" for key, value in self.settings.items() if value != self.defaults.get(key)]
        return f"{self.name}({', '.join(changed)})"

    def still(self) -> Picture:
        """The picture that stands for it where no kernel runs, with its sentence."""
        first = self.shown.sentences[0] if self.shown.sentences else ""
        return captioned(self.shown.picture, first, "A still picture: run this cell to move the controls.")

    def words(self) -> str:
        """It in a few sentences, for where nothing but text is shown."""
        return f"{self.title}. {' '.join(self.shown.sentences)}"


_SECTIONS = ("scenario", "services", "leases", "middleware", "functions", "workload")
_OF_THE_TOOLKIT = {"circuit_breaker", "timeout"}
_TOLD = 3  # numbers that changed; more are seen, not read
_frozen = False


def _freeze_once() -> None:
    """Tell the garbage collector that what is there by now stays: a full collection then takes next to nothing."""
    global _frozen
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()
