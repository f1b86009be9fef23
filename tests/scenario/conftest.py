"""A small scenario that tests bend to their needs."""

from __future__ import annotations

from typing import Any

import pytest

from labkit.scenario import Scenario, load_scenario

TEXT = """\
scenario:
  title: Twenty seconds
  duration: 20
  seed: 3
services:
  parts_availability:
    _type: parts_availability
    latency: 0.05
    faults:
      - {from: 5, to: 12, fault: error}
middleware:
  breaker: {_type: circuit_breaker, failure_threshold: 3, cooldown_period: 4}
  limit: {_type: timeout, timeout: 2}
functions:
  parts_availability:
    _type: parts_availability
    middleware: [breaker, limit]
workload:
  - {function: parts_availability, rate: 10}
"""


def scenario(text: str = TEXT, **values: Any) -> Scenario:
    """The scenario, with values set by their path (`__` for a dot)."""
    return load_scenario(text, values={path.replace("__", "."): value for path, value in values.items()})


@pytest.fixture
def small() -> Any:
    """`small(**values)` is the scenario with values set; `small.text` its text."""
    scenario.text = TEXT  # type: ignore[attr-defined]
    return scenario
