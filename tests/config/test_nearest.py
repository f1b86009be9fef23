"""Which known word a misspelt one was meant to be."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit
from labkit.config.models.middleware import middleware_types
from labkit.config.nearest import distance, nearest

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(labkit.__file__).parents[1])}
BREAKER = middleware_types()["circuit_breaker"].model.keys()


def slow_distance(first: str, second: str) -> int:
    """The definition, without any cleverness."""
    if not first or not second:
        return len(first) + len(second)
    steps = [
        slow_distance(first[1:], second) + 1,
        slow_distance(first, second[1:]) + 1,
        slow_distance(first[1:], second[1:]) + (first[0] != second[0]),
    ]
    if len(first) > 1 and len(second) > 1 and first[0] == second[1] and first[1] == second[0]:
        steps.append(slow_distance(first[2:], second[2:]) + 1)
    return min(steps)


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
@settings(derandomize=True, database=None, deadline=None)
def test_distance_is_what_its_definition_says(first: str, second: str) -> None:
    """The quick count of steps equals the count by its definition, in both directions."""
    assert distance(first, second) == distance(second, first) == slow_distance(first, second)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("coooldown_period", "cooldown_period"),
        ("cooldown_perod", "cooldown_period"),
        ("Cooldown-Period", "cooldown_period"),
        ("cooldownPeriod", "cooldown_period"),
        ("cooldown", "cooldown_period"),
        ("cool_down_period", "cooldown_period"),
        ("threshold", "failure_threshold"),
        ("falure_treshold", "failure_threshold"),
        ("success_threshold", "half_open_success_threshold"),
        ("probe timeout", "probe_timeout"),
        ("message", "circuit_breaker_message"),
        ("enable", "enabled"),
        ("registr_llms", "register_llms"),
        ("colour", None),
        ("x", None),
        ("", None),
        ("  ", None),
        (True, None),
        (None, None),
        (3, None),
        ("cooldown_period" * 50, None),
    ],
)
def test_finds_what_was_meant(word: object, meant: str | None) -> None:
    """A slip of the finger, another spelling or a half-remembered key leads to the key; anything else to none."""
    assert nearest(word, BREAKER) == meant


def test_letters_only_ignores_shared_words() -> None:
    """A section named for its purpose is not taken for a misspelt one when only letters count."""
    assert nearest("middleware_defaults", ["middleware"]) == "middleware"
    assert nearest("middleware_defaults", ["middleware"], letters_only=True) is None
    assert nearest("middlewares", ["middleware"], letters_only=True) == "middleware"


def test_short_words_are_not_near_to_everything() -> None:
    """A word of one letter is no misspelling of another word of one letter."""
    assert nearest("a", ["b", "ab"]) is None
    assert nearest("b", ["a", "b"]) == "b"


def test_the_order_of_candidates_does_not_matter() -> None:
    """The same word leads to the same candidate, however the candidates are arranged."""
    candidates = ["parts_b", "parts_a", "parts_c", "part"]
    assert {nearest("parts_", order) for order in itertools.permutations(candidates)} == {"parts_a"}
    shuffled = list(BREAKER)
    for seed in range(20):
        random.Random(seed).shuffle(shuffled)
        assert nearest("register_object_store", shuffled) == "register_object_stores"


def test_brings_neither_pydantic_nor_yaml() -> None:
    """The command line asks for a nearest command without paying for models and a parser."""
    code = "import sys; from labkit.config import nearest; assert nearest('chekc', ['check']) == 'check'; print('pydantic' in sys.modules, 'yaml' in sys.modules)"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout.split() == ["False", "False"]
