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
