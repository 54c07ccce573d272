"""Fixtures: machines."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplugctl.config import trusted
from hotplugctl.errors import HotplugError

from .machine import MachineTree


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may run side by side (pytest -n 2 --dist loadgroup): two guests, and the tests without one.

    A guest waits more than it works, so that two processors have room for two of these at a time. Within a group
    everything keeps its order: one guest serves many tests, and what has no guest may share a port or a folder.
    """
    for item in items:
        group = "native"
        if item.get_closest_marker("lab") is not None:
            group = "drains" if item.path.name.startswith("test_drain") else "lab"
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
def machine(tmp_path: Path) -> MachineTree:
    """An empty machine to build on."""
    return MachineTree(tmp_path / "machine")


@pytest.fixture
def root_owned() -> Iterator[Path]:
    """A folder that only root can write, up to the root: where configuration may lie. /tmp is open to everybody."""
    checkout = Path(__file__).parent.parent
    closed = (base for base in (checkout, Path.home(), Path("/var/lib")) if _closed(base))
    folder = Path(tempfile.mkdtemp(prefix=".hotplugctl-test-", dir=next(closed, checkout)))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _closed(base: Path) -> bool:
    """Can nobody but root put something there? A checkout below /tmp is open to everybody."""
    try:
        trusted(base)
    except HotplugError:
        return False
    return os.access(base, os.W_OK)
