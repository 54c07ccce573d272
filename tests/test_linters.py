"""What the linter and the type checker say is a test result: `pytest` alone tells whether a change is good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def says_nothing(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)


def test_ruff_has_no_complaint() -> None:
    says_nothing("ruff", "check", "--output-format", "concise", "hotplugctl", "tests")


@pytest.mark.parametrize("package", ["hotplugctl", "tests.lab", "tests.generate"])
def test_every_type_holds(package: str) -> None:
    says_nothing("mypy", "--strict", "-p", package)
