"""Waiting for processes that have a card: none is waited for that is not there any more."""

from __future__ import annotations

import subprocess
from typing import cast

from hotplugctl.drain.run import Run
from hotplugctl.drain.waiting import Known
from hotplugctl.model import Holder

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


def test_those_without_a_process_are_not_followed() -> None:
    with Known(NOBODY) as known:
        known.follow([holder(0)])
        assert known._handles == {}
