"""Waiting for processes that have a card: none is waited for that is not there any more."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import cast

import pytest

from hotplugctl.drain import waiting
from hotplugctl.drain.run import Run
from hotplugctl.drain.site import Card, Site, Wish
from hotplugctl.drain.waiting import Known
from hotplugctl.errors import HotplugError
from hotplugctl.model import Device, Holder

NOBODY = cast(Run, None)      # what is asked of the run is the machine's, and comes only after an end is known


def holder(pid: int) -> Holder:
    return Holder(pid, "sleep", "root", "fd", "/dev/accel/accel0", None, None, None, None, None, None)


def test_one_that_ended_before_it_could_be_followed_is_looked_for_again_at_once() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with Known(NOBODY) as known:
        known.follow([holder(ended.pid)])
        assert known.wait(60.0) is True


def test_the_end_of_one_that_is_followed_wakes_the_wait() -> None:
    with subprocess.Popen(["sleep", "0.2"]) as running, Known(NOBODY) as known:
        known.follow([holder(running.pid)])
        assert known.wait(60.0) is True


def test_nobody_is_signalled_while_somebody_is_there_who_may_never_be() -> None:
    with subprocess.Popen(["sleep", "60"]) as work:
        card = Card(key="k", device=Device(), holders=(holder(work.pid), holder(1)))
        run = SimpleNamespace(
            site=Site(cards=(card,), untouchable={1: "pid 1 is the machine's init"}), wish=Wish(stop_holders=True),
            look=lambda **_: None)
        with pytest.raises(HotplugError, match="pid 1 sleep"):
            waiting.hold_out(cast(Run, run))
        assert work.poll() is None
        work.kill()


def test_those_without_a_process_are_not_followed() -> None:
    with Known(NOBODY) as known:
        known.follow([holder(0)])
        assert known._handles == {}
