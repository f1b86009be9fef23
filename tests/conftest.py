"""What all tests share: how hypothesis searches, and the browser."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings

from labkit.cli.doctor import find_chromium

# The same examples on every run and machine, so that a red check is red for everybody. To search further:
# pytest --hypothesis-profile=search
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2000, deadline=None)
# For `mutmut run`: a mutant is killed by the first example that fails, however long that is.
settings.register_profile("mutants", derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
settings.load_profile("steady")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program of a Chromium; skips by name where there is none, fails where LABKIT_REQUIRE_BROWSER is set."""
    path = find_chromium()
    if path is not None:
        return path
    sentence = "no Chromium on this machine (apt-get install chromium, or set LABKIT_CHROMIUM)"
    if os.environ.get("LABKIT_REQUIRE_BROWSER"):
        pytest.fail(sentence)
    pytest.skip(sentence)
