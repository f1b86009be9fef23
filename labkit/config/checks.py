"""What can be wrong between the parts of a stack: names that lead nowhere, lists, alternatives.

These rules need no YAML: they judge a `StackConfig`, whoever made it.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

import labkit.errors
from labkit.config.breakers import BREAKERS
from labkit.config.findings import Finding, Report, TooMuch, in_order, printable, quoted
from labkit.config.models.middleware import (
    BulkheadMiddlewareConfig,
    CircuitBreakerMiddlewareConfig,
    DynamicMiddlewareConfig,
    FallbackMiddlewareConfig,
    GuardedCircuitBreakerMiddlewareConfig,
    MiddlewareConfig,
    RetryBudgetMiddlewareConfig,
    RetryMiddlewareConfig,
    WindowCircuitBreakerMiddlewareConfig,
)
from labkit.config.models.stack import FunctionConfig, StackConfig
from labkit.config.nearest import nearest

__all__ = ["check_alternatives", "check_budgets", "check_readers", "check_stack"]

_ATTACHING = ("workflow_functions", "register_workflow_functions")
_TOLD_APART_BY = ("description",)  # settings that do not tell which service it is


def check_stack(
    config: StackConfig,
    *,
    unsound: Collection[str] = (),
    not_run: Mapping[str, str] | None = None,
    unsound_leases: Collection[str] = (),
) -> list[Finding]:
    """Judge how the parts of a configuration fit together; an empty list means that they do.

    Only the first couple of hundred findings are gathered.

    Args:
        config: the configuration.
        unsound: names of middleware that are defined, but so that no model could be made of them.
        not_run: names of middleware whose `_type` only the toolkit runs, with that `_type`.
        unsound_leases: as `unsound`, of leases.

    Returns:
        Findings of every severity, in the order of lines.

    >>> from labkit.config.models.middleware import TimeoutMiddlewareConfig
    >>> stack = StackConfig({"limit": TimeoutMiddlewareConfig(timeout=2)}, {"parts": FunctionConfig("parts", ["limt"])})
    >>> print(*check_stack(stack))
    function 'parts' lists the middleware 'limt', which is not defined; allowed: limit; did you mean 'limit'?
    """
    report = Report(config.source)
    with suppress(TooMuch):
        _check_all(config, report, unsound, not_run or {})
        _check_leases(config, report, unsound_leases, whole=not unsound)
    return in_order(report.findings)


def check_alternatives(config: StackConfig) -> list[Finding]:
    """Find the alternatives that a fallback must not have. Every finding is an error; an empty list means none.

    An alternative is refused when it is not a function of the stack, is not approved, is the function that failed, is
    the same service under another name (the same `_type` with the same settings, whatever the descriptions say), or
    leads back to either through fallbacks of its own or as an agent that has it among its `tool_names`.

    >>> stack = StackConfig(
    ...     {"spare": FallbackMiddlewareConfig(alternative="parts_copy", approved=True)},
    ...     {"parts": FunctionConfig("parts_service", ["spare"]), "parts_copy": FunctionConfig("parts_service")},
    ... )
    >>> print(*check_alternatives(stack))
    the alternative 'parts_copy' of middleware 'spare' (fallback) is the same service as function 'parts', which lists it, under another name: both are 'parts_service' with the same settings
    """  # noqa: E501 - one sentence
    report = Report(config.source)
    with suppress(TooMuch):
        _check_alternatives(config, report)
    return in_order(report.findings)


def check_budgets(config: StackConfig) -> list[Finding]:
    """Find the budgets that a retry names and that are none. Every finding is an error; an empty list means none.

    >>> print(*check_budgets(StackConfig({"again": RetryMiddlewareConfig(budget="shared")})))
    'budget' of middleware 'again' (retry) names 'shared', which is no retry_budget; allowed: the name of a retry_budget, or null
    """  # noqa: E501 - one sentence
    report = Report(config.source)
    with suppress(TooMuch):
        _check_budgets(config, report, ())
    return in_order(report.findings)


def check_readers(config: StackConfig, calls: Iterable[tuple[str, bool]]) -> list[Finding]:
    """Find the breakers that count little or nothing, since those who read the streams leave them early.

    Args:
        config: the configuration.
        calls: who is called, and whether that is for a stream whose reader leaves early; a pair for each load.

    Returns:
        A warning for a breaker whose every call is such a stream: once it is open it cannot close. A note for a rate of
        which a part of the calls is left out.

    >>> stack = StackConfig({"b": CircuitBreakerMiddlewareConfig()}, {"parts": FunctionConfig("service", ["b"])})
    >>> print(*check_readers(stack, [("parts", True)]))
    warning: the breaker 'b' (circuit_breaker) of 'parts' sees nothing but streams that their readers leave early, and it counts those neither way: once it is open it stays HALF_OPEN, as no probe succeeds; let some be read to their end
    """  # noqa: E501 - one sentence
    report = Report(config.source)
    left: dict[tuple[str, str], list[bool]] = {}
    for name, leaves in calls:
        function = config.functions.get(name)
        if function is not None:
            target = function.target(name)
            for listed in dict.fromkeys(function.middleware):
                left.setdefault((listed, target), []).append(leaves)
    with suppress(TooMuch):
        for (name, target), leaving in left.items():
            _check_reader(config, report, name, target, leaving)
    return in_order(report.findings)


def _check_all(config: StackConfig, report: Report, unsound: Collection[str], not_run: Mapping[str, str]) -> None:
    _check_lists(config, report, {*config.middleware, *unsound, *not_run}, not_run)
    _check_tool_names(config, report)
    for name, middleware in config.middleware.items():
        if isinstance(middleware, DynamicMiddlewareConfig):
            _check_attaching(config, report, name, middleware)
        if isinstance(middleware, RetryMiddlewareConfig):
            _check_exceptions(config, report, name, "retry_on", middleware.retry_on)
        if isinstance(middleware, FallbackMiddlewareConfig):
            _check_exceptions(config, report, name, "errors", middleware.errors)
        if isinstance(middleware, GuardedCircuitBreakerMiddlewareConfig):
            _check_hold(config, report, name, middleware)
        _check_endless(config, report, name, middleware)
    _check_refusals(config, report)
    _check_budgets(config, report, unsound)
    _check_shared_budgets(config, report)
    _check_alternatives(config, report)


# ---------------------------------------------------------------------------------------------------------------- lists


def _owners(config: StackConfig) -> Iterator[tuple[tuple[str, ...], str, FunctionConfig]]:
    """Give all that has a list of middleware: its path, its name in a sentence, itself."""
    for name, function in config.functions.items():
        yield ("functions", name), f"function '{printable(name)}'", function
    for name, group in config.function_groups.items():
        yield ("function_groups", name), f"function group '{printable(name)}'", group
    if config.workflow is not None:
        yield ("workflow",), "the workflow", config.workflow


def _check_lists(config: StackConfig, report: Report, defined: Collection[str], not_run: Mapping[str, str]) -> None:
    budgets = _budgets(config)
    used = _named_budgets(config)
    meant: set[str | None] = set()  # a misspelt name is one fault, not two
    for path, owner, function in _owners(config):
        listed: set[str] = set()
        for index, name in enumerate(function.middleware):
            at = config.position(*path, "middleware", index)
            if name in listed:
                report.add(
                    "listed-twice",
                    f"{owner} lists the middleware '{printable(name)}' a second time; it runs once, at its first place",
                    at,
                    severity="warning",
                    key=name,
                )
            elif name in not_run:
                report.add(
                    "not-run",
                    f"{owner} lists the middleware '{printable(name)}', whose _type '{not_run[name]}' is the toolkit's "
                    "and labkit does not run it",
                    at,
                    key=name,
                    found=not_run[name],
                )
            elif name not in defined:
                report.add(
                    "undefined",
                    f"{owner} lists the middleware '{printable(name)}', which is not defined",
                    at,
                    key=name,
                    found=name,
                    allowed=_names(defined) or "a name defined in the section 'middleware', which has none",
                    nearest=nearest(name, defined),
                )
            elif name in budgets:
                report.add(
                    "not-acted-on",
                    f"{owner} lists the retry budget '{printable(name)}', which does nothing in a list: name it as the "
                    "'budget' of a retry",
                    at,
                    severity="warning",
                    key=name,
                )
            listed.add(name)
        used |= listed
        meant |= {nearest(name, defined) for name in listed if name not in defined}
    for name in sorted(set(defined) - used - meant):
        middleware = config.middleware.get(name)
        if isinstance(middleware, DynamicMiddlewareConfig) and middleware.attaches_itself():
            continue
        report.add(
            "unused",
            f"middleware '{printable(name)}' is defined and no "
            + ("retry names it as its 'budget'" if name in budgets else "function lists it"),
            config.position("middleware", name),
            severity="warning",
            key=name,
        )


def _check_tool_names(config: StackConfig, report: Report) -> None:
    for path, owner, function in _owners(config):
        names = function.settings.get("tool_names")
        if not isinstance(names, list):
            if names is not None:
                report.add(
                    "wrong-type",
                    f"'tool_names' of {owner} is {quoted(names)}",
                    config.position(*path, "tool_names"),
                    key="tool_names",
                    found=names,
                    allowed="a list of names of functions",
                )
            continue
        known = [*config.functions, *config.function_groups]
        for index, name in enumerate(names):
            if isinstance(name, str) and (name in known or name.partition("__")[0] in config.function_groups):
                continue
            report.add(
                "undefined",
                f"{owner} names the tool '{printable(str(name))}', and no function has that name",
                config.position(*path, "tool_names", index),
                key=str(name),
                found=name,
                allowed=_names(known) or "a name defined in the section 'functions', which has none",
                nearest=nearest(name, known),
            )


# -------------------------------------------------------------------------------------------------- single settings


def _check_attaching(config: StackConfig, report: Report, name: str, middleware: DynamicMiddlewareConfig) -> None:
    for key in middleware.attaches_itself():
        at = config.position("middleware", name, key)
        if key in _ATTACHING:
            effect = (
                "every function (an agent's breaker then counts its tool's rejections as failures), behind all"
                if key == "register_workflow_functions"
                else "the functions named here, behind all"
            )
            report.add(
                "attaches-itself",
                f"by '{key}' the toolkit appends middleware '{printable(name)}' ({middleware.type}) to {effect} that "
                "their lists name: it becomes the innermost, and a breaker inside a timeout never counts a time-out; "
                "labkit leaves it out, so list it by name where it belongs",
                at,
                severity="warning",
                key=key,
            )
        else:
            report.add(
                "not-acted-on",
                f"'{key}' of middleware '{printable(name)}' ({middleware.type}) intercepts components in the toolkit, "
                "and labkit has no such components: it is read and does nothing here",
                at,
                severity="note",
                key=key,
            )


def _check_endless(config: StackConfig, report: Report, name: str, middleware: object) -> None:
    effects = {
        "cooldown_period": "an open breaker never lets a call try again",
        "open_duration": "an open breaker never lets a call try again",
        "max_open_duration": "OPEN has no cap, as with null",
        "max_wait": "a call waits without limit, as with null",
        "probe_timeout": "a probe has no limit, as with null",
        "timeout": "no call is ever ended",
        "time_budget": "an operation has no limit, as with null",
    }
    for key, effect in effects.items():
        if getattr(middleware, key, None) == math.inf:
            report.add(
                "endless",
                f"'{key}' of middleware '{printable(name)}' is .inf: {effect}",
                config.position("middleware", name, key),
                severity="warning",
                key=key,
                found=math.inf,
            )


def _check_hold(
    config: StackConfig, report: Report, name: str, middleware: GuardedCircuitBreakerMiddlewareConfig
) -> None:
    limit = middleware.probe_timeout
    if limit is not None and middleware.probe_hold < limit < math.inf:
        report.add(
            "at-odds",
            f"'probe_timeout' of middleware '{printable(name)}' ({middleware.type}) is {limit:g} s, and a probe is "
            f"ended after its 'probe_hold' of {middleware.probe_hold:g} s",
            config.position("middleware", name, "probe_timeout"),
            severity="warning",
            key="probe_timeout",
            found=limit,
        )


def _check_leases(config: StackConfig, report: Report, unsound: Collection[str], *, whole: bool) -> None:
    defined = {*config.leases, *unsound}
    used: set[str | None] = set()
    for name, middleware in config.middleware.items():
        lease = middleware.probe_lease if isinstance(middleware, GuardedCircuitBreakerMiddlewareConfig) else None
        if lease is None:
            continue
        near = None if lease in defined else nearest(lease, defined)
        used |= {lease, near}
        if lease not in defined:
            report.add(
                "undefined",
                f"'probe_lease' of middleware '{printable(name)}' names the lease '{printable(lease)}', which is not "
                "defined",
                config.position("middleware", name, "probe_lease"),
                key=lease,
                found=lease,
                allowed=_names(defined) or "a name defined in the section 'leases', which has none",
                nearest=near,
            )
    for name in sorted(defined - used) if whole else ():  # a breaker that could not be read may name it
        report.add(
            "unused",
            f"lease '{printable(name)}' is defined and no breaker names it as its 'probe_lease'",
            config.position("leases", name),
            severity="warning",
            key=name,
        )


def _exceptions() -> dict[str, type[Exception]]:
    """Return every exception that a list may name without a module."""
    found = {**vars(builtins), **vars(labkit.errors)}
    return {name: one for name, one in found.items() if isinstance(one, type) and issubclass(one, Exception)}


def _check_exceptions(config: StackConfig, report: Report, name: str, key: str, listed: list[str]) -> None:
    known = _exceptions()
    for index, exception in enumerate(listed):
        at = config.position("middleware", name, key, index)
        if exception == "CircuitBreakerOpenError" and key == "retry_on":
            report.add(
                "never-retried",
                f"'{key}' of middleware '{printable(name)}' names CircuitBreakerOpenError, and a retry never repeats a "
                "call that an open breaker rejected",
                at,
                severity="warning",
                key=exception,
            )
        elif exception not in known and not _is_dotted(exception):
            report.add(
                "unknown-exception",
                f"'{key}' of middleware '{printable(name)}' names '{printable(exception)}', which is no exception",
                at,
                key=exception,
                found=exception,
                allowed="a built-in exception, one of labkit.errors, or package.module.Class",
                nearest=nearest(exception, known),
            )


def _is_dotted(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def _check_refusals(config: StackConfig, report: Report) -> None:
    """Warn of the toolkit's breakers that take the refusals of a layer further in for failures."""
    for path, owner, function in _owners(config):
        listed = [
            (index, name, config.middleware[name])
            for index, name in enumerate(function.middleware)
            if name in config.middleware and name not in function.middleware[:index] and config.middleware[name].enabled
        ]
        for place, (index, name, breaker) in enumerate(listed):
            if not isinstance(breaker, CircuitBreakerMiddlewareConfig):
                continue
            inside = list(_refusing([(other, one) for _, other, one in listed[place + 1 :]]))
            if not inside:
                continue
            inner, kind = inside[0]
            refuser = "a full bulkhead" if kind == "bulkhead" else "an open breaker"
            report.add(
                "counts-refusals",
                f"{owner} lists the breaker '{printable(name)}' ({breaker.type}) outside '{printable(inner)}' "
                f"({kind}): it counts each refusal of {refuser} as a failure of the dependency, and may open while "
                "that is well; list it inside, or make it a guarded_circuit_breaker, which counts refusals neither way",
                config.position(*path, "middleware", index),
                severity="warning",
                key=name,
                found=inner,
            )


def _refusing(listed: Iterable[tuple[str, MiddlewareConfig]]) -> Iterator[tuple[str, str]]:
    """Give the layers, outermost first, whose refusals come out of the list: no fallback of it answers them."""
    answered: list[type[Exception]] = []
    known = _exceptions()
    for name, one in listed:
        if isinstance(one, FallbackMiddlewareConfig):
            answered += [known[error] for error in one.errors if error in known]
        elif one.type in BREAKERS or isinstance(one, BulkheadMiddlewareConfig):
            is_bulkhead = isinstance(one, BulkheadMiddlewareConfig)
            refusal = labkit.errors.BulkheadFullError if is_bulkhead else labkit.errors.CircuitBreakerOpenError
            if not issubclass(refusal, tuple(answered)):
                yield name, one.type


def _check_reader(config: StackConfig, report: Report, name: str, target: str, leaving: list[bool]) -> None:
    breaker = config.middleware.get(name)
    if breaker is None or breaker.type not in BREAKERS or not breaker.enabled or not any(leaving):
        return
    if getattr(breaker, "left_early", "neither") == "success":
        return
    own = not isinstance(breaker, CircuitBreakerMiddlewareConfig)
    at = config.position("middleware", name)
    what = f"the breaker '{printable(name)}' ({breaker.type}) of '{printable(target)}'"
    way_out = ", or set 'left_early: success'" if own else ""
    if all(leaving):
        report.add(
            "left-early",
            f"{what} sees nothing but streams that their readers leave early, and it counts those neither way: once it "
            f"is open it stays HALF_OPEN, as no probe succeeds; let some be read to their end{way_out}",
            at,
            severity="warning",
            key=name,
        )
    elif isinstance(breaker, WindowCircuitBreakerMiddlewareConfig) and breaker.failure_rate is not None:
        report.add(
            "left-early",
            f"{what} counts neither way the streams that their readers leave early: 'failure_rate' is the share of "
            "failures among the other calls, and a probe that is left early decides nothing; 'left_early: success' "
            "counts them",
            at,
            severity="note",
            key=name,
        )


# -------------------------------------------------------------------------------------------------------------- budgets


def _budgets(config: StackConfig) -> list[str]:
    return [name for name, one in config.middleware.items() if isinstance(one, RetryBudgetMiddlewareConfig)]


def _named_budgets(config: StackConfig) -> set[str]:
    retries = (one for one in config.middleware.values() if isinstance(one, RetryMiddlewareConfig))
    return {retry.budget for retry in retries if retry.budget is not None}


def _check_budgets(config: StackConfig, report: Report, unsound: Collection[str]) -> None:
    budgets = _budgets(config)
    for name, retry in config.middleware.items():
        if not isinstance(retry, RetryMiddlewareConfig) or retry.budget is None:
            continue
        if retry.budget not in budgets and retry.budget not in unsound:
            report.add(
                "undefined",
                f"'budget' of middleware '{printable(name)}' (retry) names '{printable(retry.budget)}', which is no "
                "retry_budget",
                config.position("middleware", name, "budget"),
                key="budget",
                found=retry.budget,
                allowed=f"{_names(budgets)}, or null" if budgets else "the name of a retry_budget, or null",
                nearest=nearest(retry.budget, budgets),
            )


def _check_shared_budgets(config: StackConfig, report: Report) -> None:
    """Tell of lists in which several retries name one budget."""
    budgets = [name for name in _budgets(config) if config.middleware[name].enabled]
    for path, owner, function in _owners(config):
        first: dict[str, str] = {}
        for index, name in enumerate(function.middleware):
            retry = config.middleware.get(name)
            if not isinstance(retry, RetryMiddlewareConfig) or retry.budget not in budgets or not retry.enabled:
                continue
            other = first.setdefault(str(retry.budget), name)
            if other != name:
                report.add(
                    "shared-budget",
                    f"{owner} lists the retries '{printable(other)}' and '{printable(name)}', which name the same "
                    f"budget '{printable(str(retry.budget))}': a request earns once for both, and their attempts "
                    "multiply; list one of them",
                    config.position(*path, "middleware", index),
                    severity="warning",
                    key=name,
                )


# --------------------------------------------------------------------------------------------------------- alternatives


def _check_alternatives(config: StackConfig, report: Report) -> None:
    fallbacks = {name: one for name, one in config.middleware.items() if isinstance(one, FallbackMiddlewareConfig)}
    for name, fallback in fallbacks.items():
        other = fallback.alternative
        what = f"the alternative '{printable(str(other))}' of middleware '{printable(name)}' (fallback)"
        at = config.position("middleware", name, "alternative")
        if other is None:
            continue
        if not fallback.approved:
            report.add(
                "not-approved",
                f"{what} is not approved, and what it answers may mean something else",
                config.positions.get(("middleware", name, "approved"), at),
                key="approved",
                found=False,
                allowed="approved: true, once somebody has approved it",
            )
        if other not in config.functions:
            report.add(
                "undefined",
                f"{what} is not a function of the stack",
                at,
                key="alternative",
                found=other,
                allowed=_names(config.functions) or "a name defined in the section 'functions', which has none",
                nearest=nearest(other, config.functions),
            )
            continue
        for _, owner, function in _owners(config):
            if name in function.middleware:
                refusal = _leads_back(config, fallbacks, function, owner, other)
                if refusal:
                    report.add("same-service", f"{what} {refusal}", at, key="alternative", found=other)


def _leads_back(
    config: StackConfig,
    fallbacks: Mapping[str, FallbackMiddlewareConfig],
    failed: FunctionConfig,
    owner: str,
    alternative: str,
) -> str | None:
    """Say in words how an alternative comes back to the function that failed, or return None when it does not."""
    came_from: dict[str, str | None] = {alternative: None}
    queue = [alternative]
    for here in queue:
        function = config.functions[here]
        if function is failed or _same_service(function, failed):
            return _refusal(function is failed, _route(came_from, here), owner, failed.type_)
        for following in _following(function, fallbacks):
            if following in config.functions and following not in came_from:
                came_from[following] = here
                queue.append(following)
    return None


def _refusal(is_itself: bool, route: list[str], owner: str, type_: str) -> str:
    if is_itself and len(route) == 1:
        return "is the function that lists it: what has just failed is no alternative"
    alias = "" if is_itself else f", under another name: both are '{printable(type_)}' with the same settings"
    if len(route) == 1:
        return f"is the same service as {owner}, which lists it{alias}"
    return f"leads back to {owner}, which lists it ({' -> '.join(map(printable, route))}){alias}"


def _following(function: FunctionConfig, fallbacks: Mapping[str, FallbackMiddlewareConfig]) -> Iterator[str]:
    """Give the functions that a function may call: its fallbacks' alternatives, an agent's tools."""
    for name in function.middleware:
        fallback = fallbacks.get(name)
        if fallback is not None and fallback.alternative is not None:
            yield fallback.alternative
    tools = function.settings.get("tool_names")
    if isinstance(tools, list):
        yield from (tool for tool in tools if isinstance(tool, str))


def _route(came_from: Mapping[str, str | None], end: str) -> list[str]:
    route: list[str] = []
    step: str | None = end
    while step is not None:
        route.append(step)
        step = came_from[step]
    return route[::-1]


def _same_service(first: FunctionConfig, second: FunctionConfig) -> bool:
    def settings(function: FunctionConfig) -> dict[str, object]:
        return {key: value for key, value in function.settings.items() if key not in _TOLD_APART_BY}

    return first.type_ != "" and first.type_ == second.type_ and settings(first) == settings(second)


def _names(names: Collection[str]) -> str:
    """Return the names for a sentence, cut short when there are many."""
    shown = [printable(name) for name in sorted(names)]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")
