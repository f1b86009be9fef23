"""A stack from YAML in the toolkit's shape: one instance a middleware, a chain a function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from labkit.errors import MiddlewareError
from labkit.middleware._breaker import BreakerShell
from labkit.middleware._faces import check_faces, faces
from labkit.middleware.base import (
    CallNext,
    CallNextStream,
    FunctionMiddleware,
    FunctionMiddlewareChain,
    FunctionMiddlewareContext,
    validate_middleware,
)
from labkit.middleware.bulkhead import BulkheadMiddleware
from labkit.middleware.circuit_breaker import CircuitBreakerMiddleware
from labkit.middleware.fallback import FallbackMiddleware
from labkit.middleware.guarded_circuit_breaker import GuardedCircuitBreakerMiddleware
from labkit.middleware.leases import LeaseStore, ProbeLease, make_lease_store
from labkit.middleware.retry import RetryMiddleware
from labkit.middleware.retry_budget import RetryBudgetMiddleware
from labkit.middleware.timeout import TimeoutMiddleware
from labkit.middleware.window_circuit_breaker import WindowCircuitBreakerMiddleware
from labkit.timing import Clock, LoopClock

if TYPE_CHECKING:
    from os import PathLike

    from labkit.config import StackConfig

__all__ = ["Stack", "make_middleware", "register_middleware"]

_TYPES: dict[str, Callable[..., FunctionMiddleware]] = {
    "circuit_breaker": CircuitBreakerMiddleware,
    "timeout": TimeoutMiddleware,
    "retry": RetryMiddleware,
    "fallback": FallbackMiddleware,
    "window_circuit_breaker": WindowCircuitBreakerMiddleware,
    "bulkhead": BulkheadMiddleware,
    "retry_budget": RetryBudgetMiddleware,
    "guarded_circuit_breaker": GuardedCircuitBreakerMiddleware,
}


def register_middleware(type_: str, make: Callable[..., FunctionMiddleware]) -> None:
    """Let stacks build a further `_type`; `make(config, clock=clock)` gives the middleware.

    Its configuration's model is registered with `labkit.config.register_middleware_config`.
    """
    _TYPES[type_] = make


class Stack:
    """Functions wrapped in their middleware, as a configuration says.

    Args:
        config: what was loaded from YAML.
        services: what each function calls, by the function's name or else by its `_type`: an async function, an async
            generator function, or an object with `call` and/or `stream`. A plain function that returns something to
            await says so by its annotation.
        clock: whose time all middleware lives in; asyncio's by default.
        leases: stores to use for some or all of the configuration's leases, by the lease's name, such as one store that
            the replicas of a scenario share; the others are made as the configuration says.

    Attributes:
        config: as given.
        clock: as given, or the default.
        middleware: the instances by name. One name is one instance, whoever lists it.
        services: what each function calls, by the function's name.
        leases: the stores by the lease's name.

    Raises:
        MiddlewareError: a service is missing, or is a plain function that gives nothing to await; a breaker names a
            lease that is none, or whose store cannot be made; a retry names a budget that is none; an alternative is
            its own target, or leads back to it.
    """

    def __init__(
        self,
        config: StackConfig,
        services: Mapping[str, Any],
        clock: Clock | None = None,
        leases: Mapping[str, LeaseStore] | None = None,
    ) -> None:
        self.config = config
        self.clock: Clock = clock if clock is not None else LoopClock()
        given = leases or {}
        self.leases: dict[str, LeaseStore] = {
            name: given[name] if name in given else make_lease_store(one, self.clock)
            for name, one in config.leases.items()
        }
        self.middleware: dict[str, FunctionMiddleware] = {
            name: make_middleware(name, one, self.clock, **self._lease_of(name, one))
            for name, one in config.middleware.items()
        }
        self._connect_budgets()
        self._single: dict[str, CallNext] = {}
        self._streams: dict[str, CallNextStream] = {}
        self.services: dict[str, Any] = {}
        for name, function in config.functions.items():
            service = _service_of(name, function.type_, services)
            check_faces(name, service)
            self.services[name] = service
            validate_middleware([self._listed(name, one) for one in function.middleware])
            chain = FunctionMiddlewareChain(
                middleware=list(self.layers_of(name).values()), context=self.context_of(name)
            )
            call, stream = faces(service)
            if call is not None:
                self._single[name] = chain.build_single(call)
            if stream is not None:
                self._streams[name] = chain.build_stream(stream)
        self._connect_alternatives(self.services)

    @classmethod
    def from_config(
        cls,
        config: StackConfig,
        services: Mapping[str, Any],
        clock: Clock | None = None,
        leases: Mapping[str, LeaseStore] | None = None,
    ) -> Stack:
        """The same as the constructor.

        Args:
            config: a sound configuration.
            services: the services by name; see the constructor.
            clock: real time where none is given.
            leases: stores by the names of leases, in place of those that the configuration would make.

        Raises:
            MiddlewareError: see the constructor.
        """
        return cls(config, services, clock, leases)

    @classmethod
    def load(
        cls,
        path_or_text: str | PathLike[str],
        *,
        services: Mapping[str, Any],
        clock: Clock | None = None,
        lenient: bool = False,
    ) -> Stack:
        """Build a stack from a YAML file or from YAML text.

        Args:
            path_or_text: a path, or the YAML itself.
            services: the services by name; see the constructor.
            clock: real time where none is given.
            lenient: let unknown keys of a middleware pass, with a warning.

        Raises:
            ConfigError: the YAML is unsound; names every fault with its line.
            MiddlewareError: see the constructor.
        """
        from labkit.config import load_stack_config

        return cls(load_stack_config(path_or_text, lenient=lenient), services, clock)

    def target_of(self, function: str) -> str:
        """The name under which breakers, bulkheads and budgets keep a function's state."""
        return self.config.target_of(function)

    def context_of(self, function: str) -> FunctionMiddlewareContext:
        """What the middleware of a function may know about it."""
        settings = self.config.functions[function].settings
        return FunctionMiddlewareContext(
            name=self.target_of(function), config=settings, description=settings.get("description")
        )

    def layers_of(self, function: str) -> dict[str, FunctionMiddleware]:
        """The middleware that acts around a function, by name, outermost first."""
        named = {name: self.middleware[name] for name in self.config.layers_of(function)}
        return {name: one for name, one in named.items() if one.enabled}

    def breakers_of(self, function: str) -> dict[str, BreakerShell[Any, Any]]:
        """The breakers among them, of whatever kind."""
        return {name: one for name, one in self.layers_of(function).items() if isinstance(one, BreakerShell)}

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call a function through its middleware, for one result."""
        return self.caller(function)(*args, **kwargs)

    def caller(self, function: str) -> CallNext:
        """What `call` would await: the function in its middleware, to be called again and again.

        Raises:
            MiddlewareError: there is no such function, or it only streams.
        """
        found = self._single.get(function)
        if found is None:
            raise self._unknown(function, self._single, "called for one result")
        return found

    def stream(self, function: str, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Call a function through its middleware, for a stream of chunks.

        Raises:
            MiddlewareError: there is no such function, or it does not stream.
        """
        found = self._streams.get(function)
        if found is None:
            raise self._unknown(function, self._streams, "streamed")
        return found(*args, **kwargs)

    def _unknown(self, function: str, known: Iterable[str], how: str) -> MiddlewareError:
        if function in self.config.functions:
            return MiddlewareError(f"the service behind '{function}' cannot be {how}")
        return MiddlewareError(f"there is no function '{function}' in the stack{_did_you_mean(function, known)}")

    def _lease_of(self, breaker: str, config: Any) -> dict[str, ProbeLease]:
        name = getattr(config, "probe_lease", None)
        if name is None:
            return {}
        settings = self.config.leases.get(name)
        if settings is None:
            raise MiddlewareError(
                f"'{breaker}' names the lease '{name}' as its 'probe_lease', which is not defined"
                + _did_you_mean(name, self.config.leases)
            )
        lease = ProbeLease(
            self.leases[name],
            name=name,
            time_to_live=settings.time_to_live,
            when_unreachable=settings.when_unreachable,
            acquire_timeout=settings.acquire_timeout,
            clock=self.clock,
        )
        return {"lease": lease}

    def _listed(self, function: str, name: str) -> FunctionMiddleware:
        found = self.middleware.get(name)
        if found is None:
            raise MiddlewareError(
                f"function '{function}' lists the middleware '{name}', which is not defined"
                + _did_you_mean(name, self.middleware)
            )
        return found

    def _connect_budgets(self) -> None:
        from labkit.config import check_budgets

        for finding in check_budgets(self.config):
            raise MiddlewareError(finding.message)
        for middleware in self.middleware.values():
            if isinstance(middleware, RetryMiddleware) and middleware.config.budget is not None:
                budget = self.middleware[middleware.config.budget]
                if isinstance(budget, RetryBudgetMiddleware):
                    middleware.connect(budget)

    def _connect_alternatives(self, targets: Mapping[str, Any]) -> None:
        from labkit.config import check_alternatives

        for finding in check_alternatives(self.config):
            raise MiddlewareError(finding.message)
        for name, function in self.config.functions.items():
            for listed in function.middleware:
                middleware = self.middleware[listed]
                if not isinstance(middleware, FallbackMiddleware) or middleware.config.alternative is None:
                    continue
                other = middleware.config.alternative
                if _is_same(targets[other], targets[name]):
                    raise MiddlewareError(
                        f"the fallback '{listed}' of '{name}' leads to '{other}', which is the same service "
                        "under another name; an alternative must not depend on what has failed"
                    )
                middleware.connect(self._single.get(other), self._streams.get(other))


def make_middleware(name: str, config: Any, clock: Clock, **further: Any) -> Any:
    """Build one middleware.

    Args:
        name: whose, for sentences.
        config: its settings, whose `type` says which middleware.
        clock: whose time it lives in.
        further: what else this one takes, such as a breaker's lease.

    Raises:
        MiddlewareError: labkit runs no middleware of this type.
    """
    type_ = config.type
    make = _TYPES.get(type_)
    if make is None:
        raise MiddlewareError(f"middleware '{name}' is of the type '{type_}', which labkit does not run")
    return make(config, clock=clock, **further)


def _service_of(name: str, type_: str, services: Mapping[str, Any]) -> Any:
    for key in (name, type_):
        if key in services:
            return services[key]
    raise MiddlewareError(
        f"no service was given for the function '{name}' (of the type '{type_}')"
        + (_did_you_mean(name, services) or _did_you_mean(type_, services))
    )


def _is_same(one: Any, other: Any) -> bool:
    """Whether two lead to one dependency: the same object, adapters of the same object, clients of the same address."""
    one, other = _behind(one), _behind(other)
    address = getattr(one, "base_url", None)
    if one is other or (address is not None and address == getattr(other, "base_url", None)):
        return True
    # A method is made anew each time it is looked up: equal, but not identical.
    return any(face is not None and face == twin for face, twin in zip(faces(one), faces(other), strict=True))


def _behind(service: Any) -> Any:
    """What an adapter asks, and what that one asks in turn; else the service itself."""
    seen: set[int] = set()
    while id(service) not in seen:
        seen.add(id(service))
        inner = getattr(service, "service", None) if "service" in dir(service) else None  # a mock would make one up
        service = inner or service
    return service


def _did_you_mean(word: str, candidates: Iterable[str]) -> str:
    from labkit.config import nearest

    found = nearest(word, candidates)
    return f"; did you mean '{found}'?" if found else ""
