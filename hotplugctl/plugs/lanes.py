"""Work that may be slow, on a few threads: in order within a lane, side by side between lanes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

MOST_WAITING = 1000


class Lanes:
    """Threads that do what they are given. One lane does one thing at a time, in the order given.

    Work must not raise. The threads are daemons: work that hangs does not keep the process, nor another lane while a
    thread is left.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._change = threading.Condition()
        self._waiting: dict[str, deque[Callable[[], None]]] = {}    # a lane is here while it has work, done or to do
        self._free: deque[str] = deque()                            # lanes that no thread is in
        self._count = 0
        self._ending = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name} {n + 1}", daemon=True) for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, lane: str, work: Callable[[], None]) -> bool:
        """Have it done. Returns at once; False = it is not taken, because too much waits or it is the end."""
        with self._change:
            if self._ending or self._count >= MOST_WAITING:
                return False
            self._count += 1
            if lane not in self._waiting:
                self._waiting[lane] = deque()
                self._free.append(lane)
            self._waiting[lane].append(work)
            self._change.notify()
            return True

    def close(self, seconds: float) -> int:
        """Take no more, wait so long for what was given; returns how much of it is not done.

        What has begun is not stopped, what has not begins no more.
        """
        until = time.monotonic() + seconds
        with self._change:
            if self._ending:
                return self._count
            self._ending = True
            self._change.notify_all()
            while self._count and (left := until - time.monotonic()) > 0:
                self._change.wait(left)
            undone = self._count
            self._waiting.clear()
            self._free.clear()
        return undone

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._free:
                    if self._ending:
                        return
                    self._change.wait()
                lane = self._free.popleft()
                work = self._waiting[lane][0]
            try:
                work()
            finally:
                self._done(lane)

    def _done(self, lane: str) -> None:
        with self._change:
            self._count -= 1
            waiting = self._waiting.get(lane)
            if waiting is not None:
                waiting.popleft()
                if waiting:
                    self._free.append(lane)
                else:
                    del self._waiting[lane]
            self._change.notify_all()
