"""Fixtures: machines."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import MachineTree


@pytest.fixture
def machine(tmp_path: Path) -> MachineTree:
    """An empty machine to build on."""
    return MachineTree(tmp_path / "machine")


@pytest.fixture
def root_owned() -> Iterator[Path]:
    """A folder that only root can write, up to the root: where configuration may lie. /tmp is open to everybody."""
    base = Path(__file__).parent.parent / ".cache"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
