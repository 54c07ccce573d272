"""Looking at many things, any of which may never answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def each(things: Sequence[T], look: Callable[[T], None], patience: float) -> list[T]:
    """Call `look` on each, in a thread; return those at which it hung for `patience` seconds and was left behind.

    A thread that hangs in the kernel keeps nobody waiting: the next goes on with the rest.
    """
    left = list(reversed(things))
    hung: list[T] = []
    while left:
        done, begun, failed = threading.Event(), list[T](), list[BaseException]()
        threading.Thread(target=_work, args=(left, look, done, begun, failed), daemon=True).start()
        before = 0
        while not done.wait(patience):
            if len(begun) == before:
                hung.append(begun[-1])
                behind, left = left, list(left)
                behind.clear()      # the one left behind finds nothing to go on with, should it wake
                break
            before = len(begun)
        if failed:
            raise failed[0]
    return hung


def _work(
    left: list[T], look: Callable[[T], None], done: threading.Event, begun: list[T], failed: list[BaseException]
) -> None:
    try:
        while left:
            begun.append(left.pop())
            look(begun[-1])
    except BaseException as error:  # noqa: BLE001  (raised again by the one who waits)
        failed.append(error)
    finally:
        done.set()
