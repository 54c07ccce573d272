"""The drain itself: look, plan, take the first step, look again, until a fresh plan is empty.

Nothing is tried after a step that failed. Whatever ends a run (a failure, Ctrl-C, SIGKILL, a reboot), the same command
goes on from what is seen then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from .. import records
from ..errors import Exit, HotplugError
from ..host.live import Live
from ..model import Device, Done, Plan, Step, iso_time
from . import words
from .back import BACKWARD, TAKES_BACK
from .bench import Act, Bench, Turn, own
from .plan import plan
from .record import OUTLIVE, Taken, scheduler_of
from .refusing import CONFIRM, blind, refuse
from .site import Card, Site, Wish
from .survey import Survey
from .there import FORWARD, RECORDED, before, identity
from .undo import BACK, undo
from .waiting import hold_out

ENDS_WORK = ("vfs", "unbind")       # whoever has opened the card by then loses it


@dataclass(frozen=True, slots=True)
class Talk:
    """How a drain speaks: `say` a sentence as it happens, `ask` whether to go on with a plan, `confirm` a question.

    None = there is nobody to ask.
    """

    say: Callable[[str], None]
    ask: Callable[[Plan], bool | None]
    confirm: Callable[[str], bool | None]
    document: Callable[[Plan], str]
    by: str


@dataclass
class Run:
    """One run of a drain or of an undo."""

    survey: Survey
    site: Site
    wish: Wish
    talk: Talk
    done: list[Done] = field(default_factory=list)
    started: float = 0.0
    undoing: bool = False
    signalled: list[str] = field(default_factory=list)      # who was sent what, as it is said

    def __post_init__(self) -> None:
        self.host = _live(self.survey)
        self.started = self.host.elapsed()
        self.bench = Bench(
            self.host, self.survey, self.wish, self.talk.by, self.talk.say,
            lambda site: self.talk.document(plan(site, self.wish)), self.left_s,
        )

    def left_s(self) -> float | None:
        """Seconds that the work still has; None = it was given none."""
        if self.wish.timeout_s is not None:
            return self.started + self.wish.timeout_s - self.host.elapsed()
        return self.wish.grace_s if self.wish.stop_holders else None

    @property
    def recorded(self) -> bool:
        """Is anything begun?"""
        return any(self.survey.records.get(card.key) is not None for card in self.site.cards)

    def card(self, step: Step) -> Card:
        """The card a step is about."""
        return next(card for card in self.site.cards if card.key == step.card)

    def look(self, *, holders: bool = False, schedulers: bool = False) -> None:
        """See what there is now."""
        self.site = self.survey.again(self.site, holders=holders, schedulers=schedulers)

    def take(self, step: Step, acts: Mapping[str, Act]) -> None:
        """One step: recorded before it acts, verified by its act, then recorded as done."""
        card, at, began = self.card(step), iso_time(self.host.now()), self.host.elapsed()
        recorded = (acts is FORWARD and step.do in RECORDED) or step.do == "hook"
        if recorded:
            entry = Taken(step.do, step.target, at, before(card, step))
            kept = own(card).begun(entry)
            self.survey.keep(kept)
            card = replace(card, record=kept)
        said = acts[step.do](self.bench, Turn(self.site, card, step))
        took = self.host.elapsed() - began
        if recorded:
            kept = self.survey.records.get(card.key) or own(card)     # a scheduler's memory may have been added
            self.survey.keep(kept.ended(step.do, step.target, took, said), sync=False)
        elif acts is BACKWARD:
            self._taken_back(step, took, said)
        self.done.append(Done(step.do, step.target, at, round(took, 3), said))
        self.talk.say(f"{step.do} {step.target}: done in {took:.2f} s" + (f" ({said})" if said else ""))

    def _taken_back(self, step: Step, took: float, said: str | None) -> None:
        kept = self.survey.records.get(step.card)
        if kept is None:
            return
        if step.do == "ready":
            self.survey.keep(kept.ended(BACK, step.card, took, said), sync=False)
        elif step.do in TAKES_BACK:
            name = scheduler_of(step.target) if step.do == "uncordon" else None
            told = {key: told for key, told in kept.told.items() if scheduler_of(key) != name}
            self.survey.keep(replace(kept.undone(TAKES_BACK[step.do], step.target), told=told), sync=False)


def _live(survey: Survey) -> Live:
    if not isinstance(survey.host, Live):
        raise HotplugError("drain cannot be used with --root", why="a captured machine changes no more",
                           hint="--dry-run shows what would be done", exit=Exit.USAGE)
    return survey.host


def changeable(survey: Survey, devices: Sequence[Device], command: Callable[[Site], str]) -> Site:
    """The places of these devices. Raises HotplugError where nothing can be changed: USAGE, DENIED."""
    _live(survey)
    site = survey.site(devices, blind(survey))
    if site.blind is not None:
        raise HotplugError("drain cannot work here", why=site.blind, hint=f"sudo {command(site)}", exit=Exit.DENIED)
    return site


def begin(
    survey: Survey, devices: Sequence[Device], wish: Wish, talk: Talk, *, yes: bool, more: Sequence[Step] = ()
) -> Plan:
    """Drain the places of these devices; `more` steps follow, and are shown. Raises HotplugError: REFUSED, TIMEOUT,
    FAILED, DENIED.
    """
    site = changeable(survey, devices, lambda site: words.again(site, wish))
    found = plan(site, wish)
    if not found.steps and not found.blockers:
        return found
    refuse(found, wish, site, talk.say)
    if not yes:
        answer = talk.ask(replace(found, steps=(*found.steps, *more)))
        if answer is None:
            refuse(replace(found, blockers=(CONFIRM,)), wish, site, talk.say)
        elif not answer:
            raise HotplugError("nothing was done", why="you did not say yes", hint=words.again(site, wish),
                               exit=Exit.REFUSED)
    with locked(site, "draining it"):
        survey.reread(site)
        run = Run(survey, site, wish, talk)
        for card in site.cards:
            _another_card(run, card)
        with resumable(run):
            return _forward(run)


def _another_card(run: Run, card: Card) -> None:
    """The card that was put in place of a drained one is drained like any other: what was done to the first is over."""
    record = run.survey.records.get(card.key)
    if record is not None and record.pulled and card.pieces:
        run.survey.keep(replace(record.only(*OUTLIVE), pulled=False, card=identity(card.device)))


@contextmanager
def locked(site: Site, purpose: str) -> Iterator[None]:
    """Hold every place of the plan; always in the same order, so that two plans cannot wait for each other."""
    with ExitStack() as stack:
        for card in sorted(site.cards, key=lambda card: card.key):
            stack.enter_context(records.lock(card.key, purpose, card.said))
        yield


@contextmanager
def resumable(run: Run) -> Iterator[None]:
    """An interrupt says how it stands, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if not run.recorded:
            raise
        raise HotplugError(
            "interrupted", why=f"the drain of {words.names(run.site)} is recorded and waits",
            hint=_ways_on(run), exit=Exit.INTERRUPTED,
        ) from None


def _ways_on(run: Run) -> str:
    """The next thing to type: an undo knows but one direction."""
    if run.undoing:
        return words.undo(run.site)
    return f"{words.again(run.site, run.wish)} (goes on), or {words.undo(run.site)} (takes it back)"


def _forward(run: Run) -> Plan:
    fresh, last = False, None
    passed: set[Step] = set()       # hooks that may veto, asked once; the record comes after them
    run.look(holders=True, schedulers=True)
    while True:
        found = plan(run.site, run.wish)
        steps = [step for step in found.steps if step not in passed]
        if not steps:
            return replace(found, done=tuple(run.done))
        step = steps[0]
        if step.do in ENDS_WORK and not fresh:
            run.look(holders=True, schedulers=True)     # somebody may have opened it since
            fresh = True
            continue
        with both_ways(run):
            refuse(found, run.wish, run.site, run.talk.say)
            if step.do in ("wait", "stop"):
                _hold_out(run, step)
                fresh = True
                continue
        if step == last:
            raise no_effect(run, found, step)
        attempt(run, step, FORWARD)
        if step.do == "check":
            passed.add(step)
        fresh, last = False, step
        run.look(holders=step.do == "quiesce", schedulers=step.do == "cordon")


def _hold_out(run: Run, step: Step) -> None:
    at, began = iso_time(run.host.now()), run.host.elapsed()
    hold_out(run)
    said = "; ".join(run.signalled) or None
    run.done.append(Done(step.do, step.target, at, round(run.host.elapsed() - began, 3), said))


@contextmanager
def both_ways(run: Run) -> Iterator[None]:
    """Whatever stops a drain that has begun, the way back is told beside the way on."""
    try:
        yield
    except HotplugError as error:
        if words.undo(run.site) in error.hint or not run.recorded:
            raise
        raise HotplugError(error.what, why=error.why, hint=f"{error.hint}; or {words.undo(run.site)} (takes it back)",
                           exit=error.exit, more={"plan": plan(run.site, run.wish), **error.more}) from error


def attempt(run: Run, step: Step, acts: Mapping[str, Act]) -> None:
    """Take a step, or say what failed with all that is left and both ways on."""
    try:
        run.take(step, acts)
    except HotplugError as error:
        if error.exit is Exit.REFUSED or not run.recorded:
            raise
        run.look()
        left = plan(run.site, run.wish) if acts is FORWARD else undo(run.site)
        again = "" if words.undo(run.site) in error.hint else f"; then: {words.undo(run.site)}"
        on = _ways_on(run) if acts is FORWARD else error.hint + again
        raise HotplugError(
            f"{step.do} {step.target} failed, and nothing after it was tried: {error.what}", why=error.why,
            hint=on, exit=Exit.DENIED if error.exit is Exit.DENIED else Exit.FAILED,
            more={**error.more, "plan": replace(left, done=tuple(run.done))},
        ) from error


def no_effect(run: Run, found: Plan, step: Step) -> HotplugError:
    """A step that a fresh look asks for again right after it was done."""
    return HotplugError(
        f"{step.do} {step.target} had no effect", why="it was done, and a fresh look asks for it again",
        hint=f"hotplugctl diagnose {words.names(run.site)}; then: {_ways_on(run)}", exit=Exit.FAILED,
        more={"plan": replace(found, done=tuple(run.done))},
    )
