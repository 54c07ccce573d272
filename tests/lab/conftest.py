# SPDX-License-Identifier: Apache-2.0
"""The guest for tests: one for many tests, cleaned after each, booted afresh when a test has used it up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .boot import CommandError, GuestError
from .guest import Guest
from .kernel import LabUnavailable
from .qmp import QmpError


class Lab:
    """The guest of a test session: booted when first asked for, and again when the one before is past use."""

    def __init__(self) -> None:
        self._guest: Guest | None = None

    def guest(self) -> Guest:
        if self._guest is None:
            self._guest = _boot(Guest())
        return self._guest

    def clean(self) -> None:
        """Make the guest ready for the next test, or end it."""
        if self._guest is None:
            return
        try:
            self._guest.clean()
        except (GuestError, CommandError, QmpError, OSError) as error:
            print(f"the next test gets a fresh guest: {error}")
            self.close()

    def close(self) -> None:
        if self._guest is not None:
            self._guest.close()
            self._guest = None


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Where `guest` comes from."""
    lab = Lab()
    yield lab
    lab.close()


@pytest.fixture
def guest(lab: Lab) -> Iterator[Guest]:
    """A running guest: empty slots, labaccel loaded without fault, an empty kernel log."""
    yield lab.guest()
    lab.clean()


@pytest.fixture(scope="module")
def acpi_guest() -> Iterator[Guest]:
    """A guest whose slots are the firmware's (ACPI hot-plug), as in cloud machines; it ends with the module."""
    guest = _boot(Guest(acpi_hotplug=True))
    yield guest
    guest.close()


@contextmanager
def booted(guest: Guest) -> Iterator[Guest]:
    """A guest of a test module's own."""
    try:
        yield _boot(guest)
    finally:
        guest.close()


def _boot(guest: Guest) -> Guest:
    try:
        guest.__enter__()
    except LabUnavailable as error:
        _unavailable(str(error))
    try:
        guest.clean()
    except BaseException:
        guest.close()
        raise
    return guest


def _unavailable(reason: str) -> None:
    if os.environ.get("HOTPLUGCTL_REQUIRE_LAB") == "1":
        pytest.fail(f"the lab cannot run here: {reason}")
    pytest.skip(f"the lab cannot run here: {reason}")
