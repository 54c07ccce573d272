"""Until the work is over: waiting for processes, jobs and pods, and, when it was asked for, ending them.

Known processes are waited for by pidfd, with a look at their own descriptors now and then; all of /proc is looked
through only when they are gone, since that costs the most.
"""

from __future__ import annotations

import signal
from collections.abc import Collection
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import Exit, HotplugError
from ..host import Sought, pidfds
from ..lifecycle import human_time
from ..model import Holder, Unknown, Work
from . import words
from .bench import say_draining
from .plan import plan
from .site import Card
from .workers import running, scheduled, working

if TYPE_CHECKING:
    from .run import Run

GLANCE_S = 0.1           # between two looks at the descriptors of the processes that are known to have the card
ASK_S = 2.0              # between two questions to a scheduler
ANNOUNCE_S = 10.0        # a listener that started late hears it too
TELL_S = 10.0            # how often is said who is left
KILLED_S = 5.0           # so long a killed process may take to go; one in the kernel takes for ever
NEWCOMERS_S = 1.0        # how soon one that came while others are ended is seen
ROUNDS = 3               # so many times --grace, for those who come while others are ended


def hold_out(run: Run) -> None:
    """Return when nobody works on the cards any more. Raises HotplugError: TIMEOUT, or FAILED for what cannot be ended.

    Without time to wait, `--stop-holders` begins at once; with both, when the time is up.
    """
    if run.wish.timeout_s is not None:
        if _wait(run, run.started + run.wish.timeout_s):
            return
        if not run.wish.stop_holders:
            raise _time_is_up(run)
    _stop(run)


class Known:
    """The processes that are known to have the cards, each by a pidfd that means it and no later one."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._handles: dict[int, pidfds.Handle] = {}
        self._sought: list[Sought] = []
        self._lost = False       # one has ended before it could be followed: what is known of it is stale

    def __enter__(self) -> Known:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.follow(())

    def follow(self, holders: Collection[Holder]) -> None:
        """These, and no others."""
        wanted = {holder.pid: holder for holder in holders if holder.pid > 0}
        for pid in [pid for pid in self._handles if pid not in wanted]:
            self._handles.pop(pid).close()
        new = {pid: pidfds.take(pid, holder.since if isinstance(holder.since, float) else None)
               for pid, holder in wanted.items() if pid not in self._handles}
        self._handles |= {pid: handle for pid, handle in new.items() if isinstance(handle, pidfds.Handle)}
        self._lost = None in new.values()

    def wait(self, seconds: float) -> bool:
        """Has one ended, or let go of the card, within these seconds? Those that let go do not say so: a look tells."""
        if self._lost:
            return True
        if not self._handles:
            self._run.host.pause(seconds)
            return False
        if pidfds.wait(tuple(self._handles.values()), seconds):
            return True
        return any(self._let_go(handle) for handle in self._handles.values())

    def signal(self, pid: int, number: signal.Signals) -> bool | Unknown:
        """Signal one, looked at again just before: whoever let go meanwhile, or has ended, is left alone."""
        handle = self._handles.get(pid)
        return False if handle is None or self._let_go(handle) else pidfds.send(handle, number)

    def _let_go(self, handle: pidfds.Handle) -> bool:
        if not self._sought:     # asked of sysfs once: while one waits, the cards keep their nodes and drivers
            self._sought = [self._run.survey.sought(card) for card in self._run.site.cards]
        return all(pidfds.still_has(handle, one) is False for one in self._sought)


def _left(run: Run) -> tuple[list[tuple[Card, Holder]], list[tuple[Card, Work]]]:
    holders = [(card, holder) for card in run.site.cards for holder in working(card)]
    return holders, [(card, work) for card in run.site.cards for work in running(card)]


def _wait(run: Run, until: float) -> bool:
    """Wait until all are gone (True) or the time is up (False), and say who is left."""
    host = run.host
    asked = announced = host.elapsed()
    said = float("-inf")
    with Known(run) as known:
        while True:
            holders, works = _left(run)
            if not holders and not works:
                return True
            now = host.elapsed()
            if now >= until:
                return False
            if now - said >= TELL_S:
                said = now
                run.talk.say(_who(run, until - now))
            if now - announced >= ANNOUNCE_S:
                announced = now
                for card in run.site.cards:
                    say_draining(run.bench, card)
            known.follow([holder for _, holder in holders])
            rest = min(until - now, ASK_S if works else GLANCE_S, ANNOUNCE_S - (now - announced))
            gone = known.wait(max(0.0, rest))
            question = bool(works) and host.elapsed() - asked >= ASK_S
            if question:
                asked = host.elapsed()
            if gone or question or not holders:
                run.look(holders=True, schedulers=bool(run.survey.schedulers) and (question or gone))


def _who(run: Run, left: float) -> str:
    time = "for as long as it takes" if left == float("inf") else f"for {human_time(left)} more"
    return f"waiting {time} for {_names(run)}"


def _names(run: Run) -> str:
    """Everybody who is left, each once."""
    holders, works = _left(run)
    names = [_named(run, holder) for _, holder in holders] + [_job(run, work) for _, work in works]
    return "; ".join(dict.fromkeys(names))


def _named(run: Run, holder: Holder) -> str:
    since = f" (runs for {human_time(run.host.now() - holder.since)})" if isinstance(holder.since, float) else ""
    return f"pid {holder.pid} {holder.command} of {holder.user} with {holder.node}{since}"


def _job(run: Run, work: Work) -> str:
    since = f" (runs for {human_time(run.host.now() - work.since)})" if work.since is not None else ""
    return f"{work.id} {work.name or work.state}{since}"


def _stop(run: Run) -> None:
    """Ask everybody, give each --grace from then on, then KILL; each is looked at again before each signal.

    Nobody is asked while somebody is there who may never be: then nothing is gained, and work would be lost.
    """
    run.look(holders=True, schedulers=True)
    for card, holder in _left(run)[0]:
        why = run.site.untouchable.get(holder.pid)
        if why is not None and scheduled(card, holder) is None:
            raise HotplugError(
                f"pid {holder.pid} {holder.command} has {holder.node} and is left alone", why=why,
                hint=f"end it yourself ({holder.release}), then: {words.again(run.site, run.wish)}", exit=Exit.REFUSED)
    _ask_schedulers(run, run.host.elapsed() + run.wish.grace_s)
    _end_all(run)


def _end_all(run: Run) -> None:
    """Until nobody is left. Whoever comes meanwhile (a child, a service started again) is asked first as well."""
    limit = run.host.elapsed() + ROUNDS * run.wish.grace_s + KILLED_S
    asked_again = looked = run.host.elapsed()
    due: dict[int, tuple[signal.Signals, float]] = {}       # pid -> what comes next, and when
    with Known(run) as known:
        while True:
            holders, works = _left(run)
            if not holders and not works:
                return
            now = run.host.elapsed()
            if now >= limit:
                raise _cannot_end(run)
            known.follow([holder for _, holder in holders])
            for card, holder in holders:
                following, at = due.get(holder.pid, (signal.SIGTERM, now))
                if scheduled(card, holder) is None and now >= at:
                    _signal(run, known, holder, following)
                    due[holder.pid] = (signal.SIGKILL, now + run.wish.grace_s) if following is signal.SIGTERM else (
                        signal.SIGKILL, limit)
            gone = known.wait(GLANCE_S)
            now = run.host.elapsed()
            question = bool(works) and now - asked_again >= ASK_S
            asked_again = now if question else asked_again
            if gone or question or now - looked >= NEWCOMERS_S:
                run.look(holders=True, schedulers=question)
                looked = run.host.elapsed()


def _ask_schedulers(run: Run, until: float) -> None:
    """What a scheduler put there goes by it; a refusal (a disruption budget) is asked again until the time is up."""
    while True:
        refused = ""
        for card in run.site.cards:
            for (scheduler, _), place in zip(run.survey.asked(card), card.placements, strict=True):
                for work in place.work if isinstance(place.work, tuple) else ():
                    run.talk.say(f"asking {scheduler.name} to end {work.id}")
                    refused = scheduler.stop(work, run.wish.grace_s) or refused
        if not refused:
            return
        run.talk.say(refused)
        if run.host.elapsed() >= until:
            raise HotplugError(
                "the scheduler does not end what runs there", why=refused,
                hint=words.again(run.site, run.wish), exit=Exit.TIMEOUT, more={"plan": plan(run.site, run.wish)})
        run.host.pause(min(ASK_S, max(0.0, until - run.host.elapsed())))
        run.look(holders=True, schedulers=True)


def _signal(run: Run, known: Known, holder: Holder, number: signal.Signals) -> None:
    sent = known.signal(holder.pid, number)
    if isinstance(sent, Unknown):
        raise HotplugError(
            f"pid {holder.pid} {holder.command} cannot be signalled", why=sent.why,
            hint=f"{holder.release}; then: {words.again(run.site, run.wish)}", exit=Exit.REFUSED)
    if sent:
        said = f"sent {number.name} to pid {holder.pid} {holder.command} ({holder.user})"
        run.signalled.append(said)
        run.talk.say(said)


def _time_is_up(run: Run) -> HotplugError:
    limit = run.wish.timeout_s or 0.0
    return HotplugError(
        f"the time is up: after {words.seconds(limit)} the work goes on", why=_names(run),
        hint=f"{words.again(run.site, run.wish)} (waits on), or {words.undo(run.site)} (takes it back)",
        exit=Exit.TIMEOUT, more={"plan": plan(run.site, run.wish)},
    )


def _cannot_end(run: Run) -> HotplugError:
    return HotplugError(
        "what has the card does not end", why=f"even after KILL: {_names(run)}",
        hint=f"{words.undo(run.site)}", exit=Exit.FAILED, more={"plan": plan(run.site, run.wish)},
    )
