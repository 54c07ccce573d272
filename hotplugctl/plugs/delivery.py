"""The way of events to the network, whole: spool, sinks, and a courier for each sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .courier import Courier
from .envelope import Event, source
from .sinks import open_sinks
from .spool import LIMIT, Spool

CLOSE_S = 5.0
CLOSE_AWAY_S = 1.0      # a sink in an outage gets no more: nobody waits at the end for what is away anyway


class Delivery:
    """Hand events over, and forget about them.

    Raises HotplugError when opened: USAGE for sinks that can never work, REFUSED when another watch has the spool.
    `say` gets sentences for people, from any thread.
    """

    def __init__(
        self, entries: Iterable[str | Mapping[str, Any]], spool: str, *, host: str, say: Callable[[str], None],
        limit: int = LIMIT,
    ) -> None:
        outlets = open_sinks(entries, source(host))
        try:
            self._spool = Spool(spool, limit, say)
        except BaseException:
            for outlet in outlets:
                outlet.sink.close()
            raise
        self._couriers = [Courier(self._spool, outlet, say) for outlet in outlets]
        self._names = [outlet.name for outlet in outlets]
        left = {name: count for name, count in self._spool.depth().items() if name not in self._names}
        for name, count in left.items():
            say(f"{count} events in {spool} are owed to a sink that is not configured now: {name}")
        for courier in self._couriers:
            courier.start()

    def hand_over(self, events: Sequence[Event], *, announced: int = 0) -> None:
        """Durable when this returns, so call it before stdout has them; never waits for a sink.

        `announced`: so many of `dropped` are told by these events. Raises HotplugError(FAILED) when the disk takes
        nothing.
        """
        self._spool.put_many(events, self._names, announced=announced)
        for courier in self._couriers:
            courier.wake()

    def dropped(self) -> int:
        """Events dropped for want of room that no Change has announced yet."""
        return self._spool.dropped()

    def depth(self) -> Mapping[str, int]:
        """How many events wait, by what people call the sink."""
        waiting = self._spool.depth()
        return {courier.outlet.shown: waiting.get(courier.outlet.name, 0) for courier in self._couriers}

    def refused(self) -> Mapping[str, int]:
        """How many events each sink refused for good in this run."""
        return {courier.outlet.shown: courier.refused for courier in self._couriers}

    def close(self, seconds: float = CLOSE_S) -> int:
        """Deliver what can be within so many seconds; returns how many deliveries the next run has left to do."""
        until = time.monotonic() + seconds
        for courier in self._couriers:
            courier.stop()
        for courier in self._couriers:
            courier.join(min(until - time.monotonic(), CLOSE_AWAY_S if courier.away else seconds))
        for courier in self._couriers:
            courier.outlet.sink.close()
        for courier in self._couriers:
            courier.join(0.5)
        left = self._spool.depth()
        self._spool.close()
        return sum(left.get(name, 0) for name in self._names)
