"""Which calls are counted together, and what each function and replica got, are what scenario and trace say."""

from __future__ import annotations

from labkit.scenario import load_scenario, metrics, run_scenario
from labkit.scenario.read.scopes import Scope, bills, closed_too_early, scopes_of


def test_functions_of_one_name_and_breaker_share_a_state() -> None:
    """One name and one breaker are one state for both functions; a name for each makes two."""
    shared, apart = (load_scenario("name-collision"), load_scenario("name-collision:own-names"))
    both = ("parts_availability", "maintenance_documents")
    assert scopes_of(shared) == [Scope("breaker", "search", both)]
    assert scopes_of(apart) == [Scope("breaker", name, (name,)) for name in both]


def test_other_middleware_keeps_no_state_of_it() -> None:
    """Time-outs and bulkheads in a list are no breakers."""
    assert [scope.breaker for scope in scopes_of(load_scenario("retrip:bulkhead"))] == ["breaker"]


def test_bills_are_the_metrics_by_replica() -> None:
    """Over all replicas a function's bills are its numbers in the metrics, and each replica has its own."""
    trace = run_scenario(load_scenario("name-collision", values={"scenario.replicas": 3}))
    numbers = metrics(trace)["functions"]
    made = bills(trace)
    assert {bill.replica for bill in made} == {0, 1, 2}
    for name, expected in numbers.items():
        mine = [bill for bill in made if bill.function == name]
        for key in ("offered", "succeeded", "failed", "rejected"):
            assert sum(getattr(bill, key) for bill in mine) == expected[key]


def test_closing_before_the_repair_is_too_early() -> None:
    """Nothing closes in an outage where each target is asked itself; where a healthy one shares its state, it may."""
    values = {"workload.1.rate": 10, "middleware.breaker.cooldown_period": 3, "middleware.breaker.failure_threshold": 2}
    shared = run_scenario(load_scenario("name-collision", values=values))
    apart = run_scenario(load_scenario("name-collision:own-names", values=values))
    assert closed_too_early(shared) > 0
    assert closed_too_early(apart) == 0
