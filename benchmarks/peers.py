"""The peers: each used as its own documentation says for an async function, each optional.

A maker imports its package when it is called, so that one that is missing is an `ImportError`, which the caller reports
by name. Every breaker is made never to recover within a run (an hour), and every one that is not to open is given a
threshold out of reach.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from unittest.mock import MagicMock

__all__ = ["BREAKERS", "RETRIES", "TOOLKIT", "Breaker", "installed", "make_all", "toolkit_chain"]

Call = Callable[..., Awaitable[Any]]

TOOLKIT = "nvidia-nat-core"
HOUR = 3600


@dataclass
class Breaker:
    """A function behind a peer's breaker.

    Attributes:
        call: the wrapped function.
        failures: asks the peer how many failures it has counted.
        rejection: the class that it raises while it is open.
    """

    call: Call
    failures: Callable[[], Awaitable[int]]
    rejection: type[BaseException]


def installed(package: str) -> str | None:
    """The version of a package, or None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def make_all(
    makers: dict[str, Callable[..., Any]], *args: Any, notes: list[str] | None = None, **kwargs: Any
) -> dict[str, Any]:
    """What each maker gives; a peer that cannot be imported is left out and named in `notes`."""
    made = {}
    for package, make in makers.items():
        try:
            made[package] = make(*args, **kwargs)
        except ImportError as problem:
            if notes is not None:
                notes.append(missing(package, problem))
    return made


def missing(package: str, problem: ImportError) -> str:
    """Why a peer is not measured, in words."""
    found = installed(package)
    if found is None:
        return f"{package} is not installed; not measured."
    return f"{package} {found} does not run here ({problem}); not measured."


def _count(ask: Callable[[], int]) -> Callable[[], Awaitable[int]]:
    async def failures() -> int:
        return ask()

    return failures


# -- breakers


def _circuitbreaker(function: Call, threshold: int) -> Breaker:
    from circuitbreaker import CircuitBreaker, CircuitBreakerError

    breaker = CircuitBreaker(failure_threshold=threshold, recovery_timeout=HOUR)
    return Breaker(breaker(function), _count(lambda: breaker.failure_count), CircuitBreakerError)


def _hyx(function: Call, threshold: int) -> Breaker:
    from hyx.circuitbreaker import consecutive_breaker
    from hyx.circuitbreaker.exceptions import BreakerFailing

    breaker = consecutive_breaker(failure_threshold=threshold, recovery_time_secs=HOUR)
    return Breaker(
        breaker(function),
        _count(lambda: getattr(breaker.state, "consecutive_exceptions", threshold)),
        BreakerFailing,
    )


def _aiobreaker(function: Call, threshold: int) -> Breaker:
    from aiobreaker import CircuitBreaker, CircuitBreakerError

    breaker = CircuitBreaker(fail_max=threshold, timeout_duration=timedelta(seconds=HOUR))
    return Breaker(breaker(function), _count(lambda: breaker.fail_counter), CircuitBreakerError)


def _purgatory(function: Call, threshold: int) -> Breaker:
    from purgatory import AsyncCircuitBreakerFactory
    from purgatory.domain.model import OpenedState

    factory = AsyncCircuitBreakerFactory(default_threshold=threshold, default_ttl=HOUR)

    async def failures() -> int:
        counted = (await factory.get_breaker("parts")).context.failure_count
        return threshold if counted is None else counted

    return Breaker(factory("parts")(function), failures, OpenedState)


def _pyresilience(function: Call, threshold: int) -> Breaker:
    from pyresilience import CircuitBreakerConfig, CircuitOpenError, resilient

    call = resilient(circuit_breaker=CircuitBreakerConfig(failure_threshold=threshold, recovery_timeout=HOUR))(function)
    # It has no public way to the breaker of a decorated function; only the checks before the timing go this way.
    breaker = call._executor._circuit_breaker
    return Breaker(call, _count(lambda: breaker.failure_count), CircuitOpenError)


def _pybreaker(function: Call, threshold: int) -> Breaker:
    import tornado.gen  # noqa: F401 - its async calls are tornado's, and fail one by one where tornado is missing
    from pybreaker import CircuitBreaker, CircuitBreakerError

    breaker = CircuitBreaker(fail_max=threshold, reset_timeout=HOUR)
    call = breaker(__pybreaker_call_async=True)(function)
    return Breaker(call, _count(lambda: breaker.fail_counter), CircuitBreakerError)


BREAKERS: dict[str, Callable[[Call, int], Breaker]] = {
    "circuitbreaker": _circuitbreaker,
    "hyx": _hyx,
    "aiobreaker": _aiobreaker,
    "purgatory": _purgatory,
    "pyresilience": _pyresilience,
    "pybreaker": _pybreaker,
}


# -- retries: three attempts on ConnectionError, with waits of a millisecond (the success path never waits)


def _hyx_retry(function: Call) -> Call:
    from hyx.retry import retry

    return retry(on=ConnectionError, attempts=3, backoff=0.001)(function)


def _backoff(function: Call) -> Call:
    import backoff

    return backoff.on_exception(backoff.expo, ConnectionError, max_tries=3, factor=0.001)(function)


def _pyresilience_retry(function: Call) -> Call:
    from pyresilience import RetryConfig, resilient

    return resilient(retry=RetryConfig(max_attempts=3, delay=0.001, retry_on=(ConnectionError,)))(function)


def _tenacity(function: Call) -> Call:
    import tenacity

    return tenacity.retry(
        stop=tenacity.stop_after_attempt(3),
        wait=tenacity.wait_random_exponential(multiplier=0.001, max=0.01),
        retry=tenacity.retry_if_exception_type(ConnectionError),
    )(function)


def _stamina(function: Call) -> Call:
    import stamina

    return stamina.retry(on=ConnectionError, attempts=3, wait_initial=0.001, wait_jitter=0.001)(function)


RETRIES: dict[str, Callable[[Call], Call]] = {
    "hyx": _hyx_retry,
    "backoff": _backoff,
    "pyresilience": _pyresilience_retry,
    "tenacity": _tenacity,
    "stamina": _stamina,
}


# -- the toolkit


def toolkit_breaker(threshold: int = 3) -> Any:
    """Its breaker. It looks at the builder when it is made, and asks nothing of it in a call: a stand-in will do."""
    from nat.middleware.circuit_breaker import CircuitBreakerMiddleware, CircuitBreakerMiddlewareConfig

    config = CircuitBreakerMiddlewareConfig(failure_threshold=threshold, cooldown_period=float(HOUR))
    return CircuitBreakerMiddleware(config, MagicMock())


def toolkit_timeout(seconds: float) -> Any:
    """Its timeout."""
    from nat.middleware.timeout.timeout_middleware import TimeoutMiddleware
    from nat.middleware.timeout.timeout_middleware_config import TimeoutMiddlewareConfig

    return TimeoutMiddleware(TimeoutMiddlewareConfig(timeout=seconds), MagicMock())


def toolkit_context(name: str) -> Any:
    """What its middleware may know about a function."""
    from nat.middleware.middleware import FunctionMiddlewareContext

    nothing = type(None)
    return FunctionMiddlewareContext(
        name=name,
        config=None,
        description=None,
        input_schema=None,
        single_output_schema=nothing,
        stream_output_schema=nothing,
    )


def toolkit_chain(function: Call, *middleware: Any) -> Call:
    """Its chain around a function."""
    from nat.middleware.function_middleware import FunctionMiddlewareChain

    return FunctionMiddlewareChain(middleware=list(middleware), context=toolkit_context("parts")).build_single(function)


def toolkit_guarded(function: Call, threshold: int) -> Breaker:
    """A function behind its breaker."""
    from nat.middleware.circuit_breaker import CircuitBreakerOpenError

    breaker = toolkit_breaker(threshold)
    return Breaker(
        toolkit_chain(function, breaker), lambda: breaker.get_failure_count("parts"), CircuitBreakerOpenError
    )


@contextmanager
def quiet() -> Iterator[None]:
    """No log records are made while timing: they would weigh on the peers that log what happens to them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
