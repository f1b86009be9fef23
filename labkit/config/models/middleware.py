"""The settings of each middleware as pydantic models, and the register of the `_type`s that labkit knows.

`circuit_breaker` and `timeout` have the toolkit's own names, defaults, rules and conversions (NeMo Agent Toolkit 1.9.0:
`failure_threshold: "4"` is 4, `true` is 1, 2.5 is refused). One thing differs on purpose: an unknown key is refused,
where the toolkit ignores it in silence. The other types are labkit's own.

The models are plain pydantic models: made from Python they need no YAML, and raise pydantic's `ValidationError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError, model_validator
from pydantic_core import PydanticCustomError

__all__ = [
    "TOOLKIT_ONLY_TYPES",
    "AllowedComponentFunctions",
    "BulkheadMiddlewareConfig",
    "CircuitBreakerMiddlewareConfig",
    "FallbackMiddlewareConfig",
    "GuardedCircuitBreakerMiddlewareConfig",
    "MiddlewareConfig",
    "RegisteredMiddleware",
    "RetryBudgetMiddlewareConfig",
    "RetryMiddlewareConfig",
    "TimeoutMiddlewareConfig",
    "TypedConfig",
    "WindowCircuitBreakerMiddlewareConfig",
    "middleware_types",
    "register_middleware_config",
]

COUNT = "a whole number greater than 0"
SECONDS = "a number of seconds greater than 0, without a unit"
PERIOD = "a number of seconds, 0.001 or more, without a unit"
TEXT = "a text or null"
SWITCH = "true or false"
NAMES = "a list of names"
EXCEPTIONS = "a list of exception names"

TOOLKIT_ONLY_TYPES = ("cache", "dynamic_middleware", "hitl", "logging_middleware")
"""The other middleware types that NeMo Agent Toolkit 1.9.0 has; labkit knows them by name and does not run them."""


def setting(default: Any, allowed: str, description: str, **rules: Any) -> Any:
    """Return a pydantic Field that also says, for the sentences of the loader, what is allowed.

    Args:
        default: the value where the key is missing; `...` where there must be one.
        allowed: what a value may be, for a sentence that ends in it.
        description: what the key sets.
        rules: further arguments of pydantic's `Field`, such as `gt`.
    """
    return Field(default, description=description, json_schema_extra={"allowed": allowed}, **rules)


def component_setting(default: Any, allowed: str, description: str) -> Any:
    """Return the Field of a key that labkit does not act on; it stays out of the model's repr.

    Args:
        default: the value where the key is missing.
        allowed: what a value may be, for a sentence that ends in it.
        description: what the key sets in the toolkit.
    """
    return setting(default, allowed, description, repr=False)


class TypedConfig(BaseModel):
    """A block of YAML with a `_type`. Unknown keys are refused, and so is a value assigned later that breaks a rule."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, validate_assignment=True)

    type: str = Field(alias="_type", repr=False)

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.copy()
        try:
            super().__setattr__(name, value)
        except ValidationError:
            self.__dict__.update(before)  # pydantic keeps a value that only a rule between settings refuses
            raise

    @property
    def type_(self) -> str:
        """The `_type`, under the name that functions use for theirs."""
        return self.type

    @classmethod
    def static_type(cls) -> str:
        """Return the `_type` that names this model in YAML.

        >>> TimeoutMiddlewareConfig.static_type()
        'timeout'
        """
        return str(cls.model_fields["type"].default)

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return every key that may stand in YAML beside `_type`, the model's own before those common to many.

        >>> TimeoutMiddlewareConfig.keys()[:3]
        ('timeout', 'timeout_message', 'enabled')
        """
        names = [name for name in cls.model_fields if name != "type"]
        return tuple(sorted(names, key=lambda name: (name in _TOOLKIT_KEYS, name == "enabled")))


class MiddlewareConfig(TypedConfig):
    """What the settings of every middleware have in common. A new type derives from it and sets `type`.

    Unknown keys are refused, and so is a value assigned later that breaks a rule.
    """

    enabled: bool = setting(True, SWITCH, "Whether the middleware acts; read once, when the chain is built.")


class AllowedComponentFunctions(BaseModel):
    """The toolkit's block `allowed_component_functions`: method names per kind of component. Labkit only parses it."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    llms: set[str] | None = setting(None, NAMES, "Methods of language models.")
    embedders: set[str] | None = setting(None, NAMES, "Methods of embedders.")
    retrievers: set[str] | None = setting(None, NAMES, "Methods of retrievers.")
    memory: set[str] | None = setting(None, NAMES, "Methods of memories.")
    object_stores: set[str] | None = setting(None, NAMES, "Methods of object stores.")
    authentication: set[str] | None = setting(None, NAMES, "Methods of authentication providers.")


# The toolkit turns whatever stands in these lists into text.
_References = list[Annotated[str, BeforeValidator(str)]]


class DynamicMiddlewareConfig(MiddlewareConfig):
    """The toolkit's keys by which a middleware attaches itself to components. Labkit reads them and does nothing."""

    llms: _References | None = component_setting(None, NAMES, "Language models to intercept.")
    embedders: _References | None = component_setting(None, NAMES, "Embedders to intercept.")
    retrievers: _References | None = component_setting(None, NAMES, "Retrievers to intercept.")
    memory: _References | None = component_setting(None, NAMES, "Memories to intercept.")
    object_stores: _References | None = component_setting(None, NAMES, "Object stores to intercept.")
    auth_providers: _References | None = component_setting(None, NAMES, "Authentication providers to intercept.")
    register_llms: bool | None = component_setting(False, SWITCH, "Intercept every language model.")
    register_embedders: bool | None = component_setting(False, SWITCH, "Intercept every embedder.")
    register_retrievers: bool | None = component_setting(False, SWITCH, "Intercept every retriever.")
    register_memory: bool | None = component_setting(False, SWITCH, "Intercept every memory.")
    register_object_stores: bool | None = component_setting(False, SWITCH, "Intercept every object store.")
    register_auth_providers: bool | None = component_setting(False, SWITCH, "Intercept every authentication provider.")
    register_workflow_functions: bool | None = component_setting(
        False, SWITCH, "Append to every function of the workflow."
    )
    workflow_functions: list[str] | None = component_setting(None, NAMES, "Append to these functions of the workflow.")
    allowed_component_functions: AllowedComponentFunctions | None = component_setting(
        None, "a mapping of method names", "Which methods of the components may be intercepted."
    )

    def attaches_itself(self) -> tuple[str, ...]:
        """Return the keys in force by which the toolkit would attach this middleware without a list naming it.

        >>> CircuitBreakerMiddlewareConfig(register_llms=True, workflow_functions=[]).attaches_itself()
        ('register_llms',)
        """
        return tuple(name for name in _TOOLKIT_KEYS if name != "allowed_component_functions" and getattr(self, name))


_TOOLKIT_KEYS = tuple(name for name in DynamicMiddlewareConfig.model_fields if name not in ("type", "enabled"))


class CircuitBreakerMiddlewareConfig(DynamicMiddlewareConfig):
    """Settings of a circuit breaker (`_type: circuit_breaker`); the toolkit's fields, defaults and rules.

    Raises:
        pydantic.ValidationError: a value breaks a rule, or a key is unknown.

    >>> CircuitBreakerMiddlewareConfig(failure_threshold="4").failure_threshold
    4
    """

    type: Literal["circuit_breaker"] = Field(default="circuit_breaker", alias="_type", repr=False)
    failure_threshold: int = setting(3, COUNT, "Consecutive failures that open the breaker.", gt=0)
    cooldown_period: float = setting(60.0, SECONDS, "Seconds that OPEN lasts at least.", gt=0)
    half_open_success_threshold: int = setting(1, COUNT, "Consecutive successful probes that close it.", gt=0)
    probe_timeout: float | None = setting(
        None, f"{SECONDS}, or null", "Seconds that a probe may take; null: without limit.", gt=0
    )
    circuit_breaker_message: str | None = setting(None, TEXT, "Appended to the text of a rejection.")


class TimeoutMiddlewareConfig(DynamicMiddlewareConfig):
    """Settings of a time limit (`_type: timeout`); the toolkit's fields, defaults and rules.

    Raises:
        pydantic.ValidationError: a value breaks a rule, `timeout` is missing, or a key is unknown.

    >>> TimeoutMiddlewareConfig(timeout=2).timeout
    2.0
    """

    type: Literal["timeout"] = Field(default="timeout", alias="_type", repr=False)
    timeout: float = setting(..., SECONDS, "Seconds that everything inside may take.", gt=0)
    timeout_message: str | None = setting(None, TEXT, "Appended to the text of the TimeoutError.")


class RetryMiddlewareConfig(MiddlewareConfig):
    """Settings of labkit's retry (`_type: retry`); the toolkit has none.

    The wait before attempt n (the first retry is n = 2) is at most `base_delay * factor ** (n - 2)` seconds, capped at
    `max_delay`; with full jitter it is drawn evenly from 0 to that. After an error that has a `retry_after` no attempt
    is made before that many seconds, whatever `max_delay` says; full jitter comes on top of it. If `time_budget` does
    not allow it, the retry gives up at once, and so it does for more than a day.

    Without a `seed` each process draws otherwise, so that replicas do not try again in step. In virtual time, where two
    runs are equal, the seed is then 0, and a scenario gives each replica one of its own.

    Raises:
        pydantic.ValidationError: a value breaks a rule, or a key is unknown.

    >>> RetryMiddlewareConfig(attempts=5).max_delay
    10.0
    """

    type: Literal["retry"] = Field(default="retry", alias="_type", repr=False)
    attempts: int = setting(3, COUNT, "Attempts in all, the first call included.", gt=0)
    base_delay: FiniteFloat = setting(0.1, "a number of seconds, 0 or more", "Seconds before the first retry.", ge=0)
    factor: FiniteFloat = setting(2.0, "a number, 1 or more", "By what each wait grows.", ge=1)
    max_delay: FiniteFloat = setting(
        10.0, "a number of seconds, 0 or more", "Seconds that no wait of its own exceeds.", ge=0
    )
    jitter: Literal["full", "none"] = setting("full", "full or none", "Whether a wait is drawn at random.")
    seed: int | None = setting(
        None, "a whole number, or null", "Seed of the draws; null: each process draws otherwise."
    )
    time_budget: float | None = setting(
        None, f"{SECONDS}, or null", "Seconds for one operation; no wait begins that would pass them.", gt=0
    )
    retry_on: list[str] = setting(
        ["ConnectionError", "TimeoutError", "DependencyError"], EXCEPTIONS, "Exceptions that are worth another attempt."
    )
    budget: str | None = setting(
        None, "the name of a retry_budget, or null", "The budget that it shares; null: no budget."
    )


class FallbackMiddlewareConfig(MiddlewareConfig):
    """Settings of labkit's fallback (`_type: fallback`); the toolkit has none.

    By default it answers every refusal of labkit's layers (`Refusal`: an open breaker, a full bulkhead) and every error
    that tells of a dependency which is not there. Without `alternative` the caller gets an explicit "unavailable"; with
    it, that function is called instead, which somebody must have approved (`approved: true`).

    Raises:
        pydantic.ValidationError: a value breaks a rule, or a key is unknown.

    >>> FallbackMiddlewareConfig().approved
    False
    """

    type: Literal["fallback"] = Field(default="fallback", alias="_type", repr=False)
    errors: list[str] = setting(
        ["Refusal", "TimeoutError", "ConnectionError", "DependencyError"],
        EXCEPTIONS,
        "Exceptions that are answered instead of raised; a Refusal is an open breaker's, a full bulkhead's, a lease's.",
    )
    reason: str | None = setting(None, TEXT, "Told to the caller; null: the error's own text.")
    alternative: str | None = setting(None, "the name of a function, or null", "The function to call instead.")
    approved: bool = setting(False, SWITCH, "Whether the alternative may be used at all.")


class WindowCircuitBreakerMiddlewareConfig(MiddlewareConfig):
    """Settings of labkit's breaker that counts over time (`_type: window_circuit_breaker`); the toolkit has none.

    It counts in one of two ways: `failure_threshold` failures within one `interval`, or a `failure_rate` in a sliding
    `window` that holds at least `minimum_calls`.

    Raises:
        pydantic.ValidationError: a value breaks a rule, a key is unknown, or the way of counting is not one of the two.

    >>> WindowCircuitBreakerMiddlewareConfig(failure_threshold=30, interval=60).open_duration
    60.0
    """

    type: Literal["window_circuit_breaker"] = Field(default="window_circuit_breaker", alias="_type", repr=False)
    failure_threshold: int | None = setting(
        None, f"{COUNT}, or null", "Failures within one interval that open the breaker.", gt=0
    )
    interval: FiniteFloat | None = setting(
        None, f"{PERIOD}, or null", "Seconds after which the count of failures is 0 again.", ge=0.001
    )
    failure_rate: float | None = setting(
        None,
        "a share greater than 0 and at most 1, or null",
        "Share of failures in the window that opens it.",
        gt=0,
        le=1,
    )
    window: FiniteFloat | None = setting(None, f"{PERIOD}, or null", "Seconds for which an outcome counts.", ge=0.001)
    minimum_calls: int | None = setting(
        None, f"{COUNT}, or null", "Calls in the window from which on the rate counts; null: 10.", gt=0
    )
    open_duration: float = setting(60.0, SECONDS, "Seconds that OPEN lasts at least, the first time.", gt=0)
    open_factor: FiniteFloat = setting(
        1.0, "a number, 1 or more", "By what a failed probe makes the next OPEN longer.", ge=1
    )
    max_open_duration: float | None = setting(
        None, f"{SECONDS}, or null", "Seconds that OPEN never exceeds; null: without a cap.", gt=0
    )
    half_open_requests: int = setting(1, COUNT, "Probes that may be in flight at once.", gt=0)
    half_open_successes: int = setting(1, COUNT, "Consecutive successful probes that close it.", gt=0)
    probe_timeout: float | None = setting(
        None, f"{SECONDS}, or null", "Seconds that a probe may take; null: without limit.", gt=0
    )
    circuit_breaker_message: str | None = setting(None, TEXT, "Appended to the text of a rejection.")
    left_early: Literal["neither", "success"] = setting(
        "neither", "neither or success", "What a stream counts as whose reader leaves after a chunk or more."
    )

    @model_validator(mode="after")
    def _counts_in_one_way(self) -> Self:
        given = [key for key in (*_BY_INTERVAL, *_BY_RATE) if getattr(self, key) is not None]
        if not given:
            raise _at_odds("", "it is not said what opens it", _ONE_WAY)
        way = _BY_INTERVAL if given[0] in _BY_INTERVAL else _BY_RATE
        for key in given:
            if key not in way:
                raise _at_odds(key, f"'{key}' is set beside '{given[0]}'", _ONE_WAY)
        for key in way[:2]:
            if key not in given:
                raise _at_odds(given[0], f"'{given[0]}' is set without '{key}'", _ONE_WAY)
        if self.max_open_duration is not None and self.max_open_duration < self.open_duration:
            found = f"'max_open_duration' is less than 'open_duration', {self.open_duration:g} s"
            raise _at_odds("max_open_duration", found, "that or more, or null")
        return self


_BY_INTERVAL = ("failure_threshold", "interval")
_BY_RATE = ("failure_rate", "window", "minimum_calls")
_ONE_WAY = "either 'failure_threshold' with 'interval', or 'failure_rate' with 'window'"


class BulkheadMiddlewareConfig(MiddlewareConfig):
    """Settings of labkit's bulkhead (`_type: bulkhead`); the toolkit has none.

    Raises:
        pydantic.ValidationError: a value breaks a rule, `max_concurrent` is missing, or a key is unknown.

    >>> BulkheadMiddlewareConfig(max_concurrent=8).max_queue
    0
    """

    type: Literal["bulkhead"] = Field(default="bulkhead", alias="_type", repr=False)
    max_concurrent: int = setting(..., COUNT, "Calls of one function that may run at once.", gt=0)
    max_queue: int = setting(0, "a whole number, 0 or more", "Calls of one function that may wait for a place.", ge=0)
    max_wait: float | None = setting(
        None, f"{SECONDS}, or null", "Seconds that a call waits for a place; null: without limit.", gt=0
    )


class RetryBudgetMiddlewareConfig(MiddlewareConfig):
    """Settings of labkit's retry budget (`_type: retry_budget`); the toolkit has none.

    No function lists it: a `retry` names it as its `budget`. Every request earns `ratio` tokens with its first attempt,
    every retry spends one, and without a token nothing is retried. Retries that name the same budget share it, for each
    function by itself; where one function lists several of them, a request still earns once.

    Raises:
        pydantic.ValidationError: a value breaks a rule, or a key is unknown.

    >>> RetryBudgetMiddlewareConfig(ratio=0.2).max_tokens
    10.0
    """

    type: Literal["retry_budget"] = Field(default="retry_budget", alias="_type", repr=False)
    ratio: float = setting(0.1, "a number from 0.001 to 1", "Tokens that a first attempt earns.", ge=0.001, le=1)
    max_tokens: FiniteFloat = setting(10.0, "a number, 1 or more", "Tokens that are saved up at most.", ge=1)
    initial_tokens: FiniteFloat | None = setting(
        None, "a number, 0 or more, or null", "Tokens at the beginning; null: max_tokens.", ge=0
    )

    @model_validator(mode="after")
    def _begins_within_its_cap(self) -> Self:
        if self.initial_tokens is not None and self.initial_tokens > self.max_tokens:
            found = f"'initial_tokens' is more than 'max_tokens', {self.max_tokens:g}"
            raise _at_odds("initial_tokens", found, "that or less, or null")
        return self


class GuardedCircuitBreakerMiddlewareConfig(MiddlewareConfig):
    """Settings of labkit's breaker without the toolkit's faults (`_type: guarded_circuit_breaker`).

    The first five are the toolkit's, with its defaults and rules; the others are labkit's own.

    Raises:
        pydantic.ValidationError: a value breaks a rule, or a key is unknown.

    >>> GuardedCircuitBreakerMiddlewareConfig().probe_hold
    60.0
    """

    type: Literal["guarded_circuit_breaker"] = Field(default="guarded_circuit_breaker", alias="_type", repr=False)
    failure_threshold: int = setting(3, COUNT, "Consecutive failures that open the breaker.", gt=0)
    cooldown_period: float = setting(60.0, SECONDS, "Seconds that OPEN lasts at least.", gt=0)
    half_open_success_threshold: int = setting(1, COUNT, "Consecutive successful probes that close it.", gt=0)
    probe_timeout: float | None = setting(
        None, f"{SECONDS}, or null", "Seconds that a probe may take; null: probe_hold.", gt=0
    )
    circuit_breaker_message: str | None = setting(None, TEXT, "Appended to the text of a rejection.")
    probe_hold: FiniteFloat = setting(60.0, SECONDS, "Seconds that a probe keeps others out at most.", gt=0)
    idle_period: float = setting(600.0, SECONDS, "Seconds after which an untouched closed target is forgotten.", gt=0)
    probe_lease: str | None = setting(
        None, "the name of a lease, or null", "The lease of the section 'leases' that a probe needs."
    )
    left_early: Literal["neither", "success"] = setting(
        "neither", "neither or success", "What a stream counts as whose reader leaves after a chunk or more."
    )


def _at_odds(key: str, found: str, allowed: str) -> PydanticCustomError:
    """Return the error of settings that do not go together; `key` is the one to blame."""
    what = {"key": key, "found": found, "allowed": allowed}
    return PydanticCustomError("at_odds", "{found}; allowed: {allowed}", what)


@dataclass(frozen=True, slots=True)
class RegisteredMiddleware:
    """A `_type` that labkit runs, and whether the toolkit has it too.

    Attributes:
        model: the pydantic model of its settings.
        toolkit: True when NeMo Agent Toolkit 1.9.0 has a middleware of this `_type`.
    """

    model: type[MiddlewareConfig]
    toolkit: bool


_REGISTER: dict[str, RegisteredMiddleware] = {}


def register_middleware_config(model: type[MiddlewareConfig], *, toolkit: bool = False) -> type[MiddlewareConfig]:
    """Make a model's `_type` known to the loader, and return the model (so that it may be used as a decorator).

    Args:
        model: a `MiddlewareConfig` whose field `type` has the `_type` as its default.
        toolkit: whether the toolkit has this type too; labkit's own types are labelled as such.

    Raises:
        TypeError: the model is not a MiddlewareConfig or its `type` has no default.
        ValueError: another model has that `_type` already.

    >>> register_middleware_config(TimeoutMiddlewareConfig, toolkit=True).static_type()
    'timeout'
    """
    if not (isinstance(model, type) and issubclass(model, MiddlewareConfig)):
        raise TypeError(f"a middleware's settings derive from MiddlewareConfig; {model!r} does not")
    name = model.model_fields["type"].default
    if not isinstance(name, str) or not name:
        raise TypeError(f"{model.__name__}: the field 'type' needs the _type as its default")
    known = _REGISTER.get(name)
    if (known is not None and known.model is not model) or name in TOOLKIT_ONLY_TYPES:
        raise ValueError(f"the _type '{name}' is taken")
    _REGISTER[name] = RegisteredMiddleware(model, toolkit)
    return model


def middleware_types() -> Mapping[str, RegisteredMiddleware]:
    """Return every `_type` that labkit runs, in the order of registration.

    >>> [name for name, entry in middleware_types().items() if entry.toolkit]
    ['circuit_breaker', 'timeout']
    """
    return dict(_REGISTER)


register_middleware_config(CircuitBreakerMiddlewareConfig, toolkit=True)
register_middleware_config(TimeoutMiddlewareConfig, toolkit=True)
register_middleware_config(RetryMiddlewareConfig)
register_middleware_config(FallbackMiddlewareConfig)
register_middleware_config(WindowCircuitBreakerMiddlewareConfig)
register_middleware_config(BulkheadMiddlewareConfig)
register_middleware_config(RetryBudgetMiddlewareConfig)
register_middleware_config(GuardedCircuitBreakerMiddlewareConfig)
