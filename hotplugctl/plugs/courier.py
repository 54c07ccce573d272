"""One thread that takes what the spool owes to one sink there, for as long as it takes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from ..errors import HotplugError
from .sinks import Outcome, Outlet
from .spool import Spool

BATCH = 200
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 30.0


class Courier:
    """Delivers in the order of the spool; what the sink has not acknowledged is sent again, later each time.

    `say` is called from the courier's thread: once when an outage begins and once when it ends, and for events that
    the sink refuses for good, which are given up and counted in `refused`.
    """

    def __init__(self, spool: Spool, outlet: Outlet, say: Callable[[str], None]) -> None:
        self.outlet = outlet
        self.refused = 0
        self._spool = spool
        self._say = say
        self._news = threading.Event()
        self._stop = threading.Event()
        self._away_since: float | None = None
        # A daemon: a sink that hangs must not keep the process; what it did not acknowledge is in the spool.
        self._thread = threading.Thread(target=self._run, name=f"courier {outlet.shown}", daemon=True)

    def start(self) -> None:
        """Begin, with what was left from earlier runs."""
        self._thread.start()

    def wake(self) -> None:
        """There is something new. Returns at once."""
        self._news.set()

    def stop(self) -> None:
        """End as soon as nothing is owed, or at the next failure. Returns at once."""
        self._stop.set()
        self._news.set()

    @property
    def away(self) -> bool:
        """Is the sink in an outage?"""
        return self._away_since is not None

    def join(self, seconds: float) -> bool:
        """Has the courier ended within that time?"""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _run(self) -> None:
        wait = FIRST_WAIT_S
        while True:
            self._news.clear()
            outcome, more = self._turn()
            if outcome.trouble is not None:
                if self._stop.is_set():
                    return
                # Jitter, so that a hundred machines do not return to a broker in one moment.
                self._stop.wait(max(wait, outcome.wait_s) * random.uniform(0.8, 1.2))  # noqa: S311  no secret
                wait = FIRST_WAIT_S if outcome.delivered else min(wait * 2, LONGEST_WAIT_S)
                continue
            wait = FIRST_WAIT_S
            if not more:
                if self._stop.is_set():
                    return
                self._news.wait()

    def _turn(self) -> tuple[Outcome, bool]:
        """Send once: (what became of it, is there more)."""
        try:
            events = self._spool.owed(self.outlet.name, BATCH)
            outcome = self.outlet.sink.send(events) if events else Outcome()
            if settled := (*outcome.delivered, *(id for id, _ in outcome.refused)):
                self._spool.settle(self.outlet.name, settled)
        except HotplugError as error:
            events, outcome = [], Outcome(trouble=str(error))
        except Exception as error:  # noqa: BLE001  a defect in a sink must not end deliveries without a word
            events, outcome = [], Outcome(trouble=f"{type(error).__name__}: {error}")
        self._tell(outcome)
        return outcome, bool(events)

    def _tell(self, outcome: Outcome) -> None:
        if outcome.refused:
            self.refused += len(outcome.refused)
            id, why = outcome.refused[0]
            more = f" and {len(outcome.refused) - 1} more" if len(outcome.refused) > 1 else ""
            self._say(f"{self.outlet.shown} will never take event {id}{more} ({why}): given up")
        if outcome.trouble is not None and self._away_since is None:
            self._away_since = time.monotonic()
            if not self._stop.is_set():
                self._say(f"{self.outlet.shown} takes no events ({outcome.trouble}): keeping them, and trying again")
        elif outcome.trouble is None and outcome.delivered and self._away_since is not None:
            away, self._away_since = time.monotonic() - self._away_since, None
            self._say(f"{self.outlet.shown} takes events again, after {away:.0f} s")
