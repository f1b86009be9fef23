"""What the tests of widgets share: a real kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.widgets.kernels import Kernel

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel of this environment, ended with the test."""
    pytest.importorskip("jupyter_client")
    from jupyter_client.manager import KernelManager

    environment = os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path), "JUPYTER_PREFER_ENV_PATH": "1"}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment, extra_arguments=["--log-level=ERROR"])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        manager.context.term()
