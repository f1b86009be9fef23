"""What `live_view` is without a front end: a stack's settings, and the run of it that goes on now, if any does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from labkit.config import load_stack_config, nearest
from labkit.errors import ConfigError, ServiceError
from labkit.plots import Picture, layers_of, onion
from labkit.scenario.read.journeys import PHRASES, layers_of_function
from labkit.scenario.watch.live import LiveRun
from labkit.widgets.explorer.controls import Choice, Control, Range, Switch
from labkit.widgets.flow.model import LOOK

__all__ = ["FAULTS", "LiveModel"]

FAULTS = (
    ("healthy", "Mend it", ""),
    ("error", "Fail at once", "fails at once"),
    ("hang", "Hang", "hangs"),
    ("slow", "Be slow", "answers after 3 s"),
    ("connection_error", "Drop connections", "drops connections"),
    ("error_shaped_string", "Answer with an error's text", "answers with an error's text"),
    ("rate_limit", "Refuse: too many", "refuses: too many"),
)
"""What the service can be told: the fault, the words of its button, what it does then ("" if it is well)."""

_CONTROLS: tuple[Control, ...] = (
    Range("failure_threshold", "failure_threshold", least=1, most=30, whole=True),
    Range("cooldown_period", "cooldown_period", least=0.1, most=120, unit="s"),
    Range("half_open_success_threshold", "half_open_success_threshold", least=1, most=10, whole=True),
    Range("probe_timeout", "probe_timeout", least=0.1, most=30, unit="s", none="none"),
    Range("timeout", "timeout", least=0.1, most=30, unit="s", none="none"),
    Range("attempts", "attempts", least=1, most=5, whole=True),
    Switch("fallback", "fallback"),
    Range("replicas", "replicas", least=1, most=4, whole=True),
    Range("rate", "rate", least=1, most=40, unit="/s"),
    Range("latency", "latency", least=0.0, most=2.0, unit="s"),
    Range("minutes", "minutes", least=0.01, most=60),
    Choice("fault", "fault", options=tuple((fault, fault) for fault, _, _ in FAULTS)),
    Switch("wide", "wide"),
)
_BY_KEY = {control.key: control for control in _CONTROLS}

DEFAULTS: Mapping[str, Any] = {
    "failure_threshold": 5,
    "cooldown_period": 10.0,
    "half_open_success_threshold": 2,
    "probe_timeout": 2.0,
    "timeout": 2.0,
    "attempts": 1,
    "fallback": False,
    "replicas": 1,
    "rate": 8.0,
    "latency": 0.25,
    "minutes": 5.0,
    "fault": "healthy",
    "wide": False,
}

_ENDS = {"": "", "stopped": "Stopped.", "time": "The time is over; it has stopped by itself."}


class LiveModel:
    """See `live_view` for the settings.

    Attributes:
        settings: the values, by name.
        config: the stack.
        run: the run that goes on, or the last one; None before the first.

    Raises:
        ConfigError: a setting is unknown or out of range; one sentence a fault.
    """

    def __init__(self, **settings: Any) -> None:
        trouble = []
        self.settings: dict[str, Any] = dict(DEFAULTS)
        for key, typed in settings.items():
            control = _BY_KEY.get(key)
            if control is None:
                near = nearest(key, _BY_KEY)
                hint = f"did you mean '{near}'?" if near else f"there are {', '.join(_BY_KEY)}."
                trouble.append(f"live_view has no setting '{key}'; {hint}")
                continue
            value, wrong = control.read(typed)
            if wrong:
                trouble.append(wrong)
            else:
                self.settings[key] = value
        if trouble:
            raise ConfigError(" ".join(trouble))
        self.config = load_stack_config(self.yaml())
        self.run: LiveRun | None = None
        self._layers = layers_of_function(self.config, LiveRun.function)
        self._runs = 0
        self._tell: Callable[[int, dict[str, Any]], bool] = lambda number, batch: True
        self._notice = ""

    def yaml(self) -> str:
        """The stack as YAML; it loads in labkit, and without fallback and retry in the toolkit."""
        one = self.settings
        limit = one["probe_timeout"]
        lines = ["middleware:"]
        listed = []
        if one["fallback"]:
            lines.append("  say_unavailable: {_type: fallback}")
            listed.append("say_unavailable")
        if one["attempts"] > 1:
            lines.append(f"  again: {{_type: retry, attempts: {one['attempts']}, base_delay: 0.3}}")
            listed.append("again")
        lines += [
            "  breaker:",
            "    _type: circuit_breaker",
            f"    failure_threshold: {one['failure_threshold']}",
            f"    cooldown_period: {one['cooldown_period']:g}",
            f"    half_open_success_threshold: {one['half_open_success_threshold']}",
            f"    probe_timeout: {'null' if limit is None else format(limit, 'g')}",
        ]
        listed.append("breaker")
        if one["timeout"] is not None:
            lines.append(f"  limit: {{_type: timeout, timeout: {one['timeout']:g}}}")
            listed.append("limit")
        lines += ["functions:", "  parts_availability:", "    _type: parts_availability",
                  f"    middleware: [{', '.join(listed)}]"]  # fmt: skip
        return "\n".join(lines) + "\n"

    def connect(self, tell: Callable[[int, dict[str, Any]], bool]) -> None:
        """Say who hears the batches: tell(number of the run, batch), in the run's thread; see `LiveRun`."""
        self._tell = tell

    @property
    def running(self) -> bool:
        """Whether a run goes on."""
        return self.run is not None and not self.run.ended

    def data(self) -> dict[str, Any]:
        """What never changes, for the page."""
        one = self.settings
        return {
            "function": LiveRun.function,
            "replicas": one["replicas"],
            "rows": one["replicas"],
            "every": 1,
            "layers": [layer.plain() for layer in self._layers],
            "services": [{"name": LiveRun.function, "workers": None, "faults": []}],
            "phrases": {key: words if isinstance(words, str) else list(words) for key, words in PHRASES.items()},
            "look": LOOK,
            "faults": [list(fault) for fault in FAULTS],
            "thresholds": {key: one[key] for key in ("failure_threshold", "half_open_success_threshold")},
            "wide": one["wide"],
            "minutes": one["minutes"],
        }

    def press(self, message: Mapping[str, Any]) -> None:
        """Do what somebody pressed.

        Args:
            message: "do" names it: "start", "stop", "fault" with "value", "rate" with "value".
        """
        do = message.get("do")
        self._notice = ""
        if do == "start" and not self.running:
            self._start()
        elif do == "stop" and self.run is not None:
            self.run.stop()
        elif do in ("fault", "rate"):
            value, wrong = _BY_KEY[do].read(message.get("value"))
            if wrong:
                self._notice = wrong
                return
            self.settings[do] = value
            if self.run is not None and self.running:
                (self.run.set_fault if do == "fault" else self.run.set_rate)(value)

    def _start(self) -> None:
        one = self.settings
        self._runs += 1
        number, tell = self._runs, self._tell
        try:
            self.run = LiveRun(
                self.config,
                self._layers,
                replicas=one["replicas"],
                rate=one["rate"],
                fault=one["fault"],
                latency=one["latency"],
                seconds=one["minutes"] * 60.0,
                tell=lambda batch: tell(number, batch),
            )
            self.run.start()
        except ServiceError as error:
            self._notice = str(error)

    def view(self) -> dict[str, Any]:
        """What the page shows, beside what it hears in batches."""
        ended = self.run.ended if self.run is not None else ""
        return {
            "title": "A stack that runs now",
            "running": self.running,
            "number": self._runs,
            "rate": self.settings["rate"],
            "fault": self.settings["fault"],
            "notice": self._notice or _ENDS.get(ended, ended),
        }

    def still(self) -> Picture:
        """The layers, for where no kernel runs."""
        return onion(layers_of(self.config, LiveRun.function), LiveRun.function)

    def words(self) -> str:
        """It in a few sentences, for where nothing but text is shown."""
        one = self.settings
        names = ", ".join(layer.name for layer in self._layers)
        return (
            f"A stack that runs now: {one['rate']:g} calls a second through {names} to a real HTTP service on this "
            f"machine, which can be broken and mended by hand. It needs a kernel, and stops by itself after "
            f"{one['minutes']:g} minutes."
        )

    def close(self) -> None:
        """End what runs."""
        if self.run is not None:
            self.run.stop()
