"""What a rule or a root cause says, looks for, and finds in the evidence: `diagnose --explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import Exit, HotplugError
from ..model import Evidence, Probed, RootCause, Rule, Trit
from ..rules import steps
from ..rules.judge import Judgement, Subject, judge, shown
from .findings import line_of, source_of
from .scene import Scene

_MOST_LINES = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of a rule's condition in words: how deep it stands, and under which word (all, any, unless, when)."""

    depth: int
    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a condition as it came out: yes, no or unknown; what was found, and where it was read.

    `excused` are the lines that count for nothing, since `because` stands in the log too.
    """

    condition: Condition
    answer: str
    found: tuple[Evidence, ...] = ()
    excused: tuple[Evidence, ...] = ()
    because: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A rule as it came out for one place (neither address nor slot = the machine as a whole)."""

    rule: str
    address: str | None
    slot: str | None
    answer: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A root cause with the rules that conclude it; `trials` is None where no evidence was looked at.

    `conditions` are those of each rule in turn.
    `elsewhere` counts the places where nothing speaks for any of the rules: they stand in no trial.
    """

    root_cause: RootCause
    rules: tuple[Rule, ...]
    conditions: tuple[tuple[Condition, ...], ...]
    trials: tuple[Trial, ...] | None = None
    elsewhere: int = 0


def explain(
    name: str, rules: Sequence[Rule], taxonomy: Mapping[str, RootCause], scene: Scene | None = None
) -> Explanation:
    """The root cause of that id with all its rules, or that of the rule with that id and only it.

    Raises HotplugError (usage) with near matches when there is neither.
    """
    name = name.casefold()
    chosen = tuple(rule for rule in rules if name in (rule.root_cause, rule.id))
    if name in taxonomy:
        cause = taxonomy[name]
    elif chosen:
        cause = taxonomy[chosen[0].root_cause]
    else:
        import difflib

        near = difflib.get_close_matches(name, [*taxonomy, *(rule.id for rule in rules)], n=3, cutoff=0.5)
        raise HotplugError(
            f"no rule and no root cause named {name}", why=f"near: {', '.join(near)}" if near else "",
            hint="hotplugctl diagnose --explain all", exit=Exit.USAGE,
        )
    conditions = tuple(tuple(_condition(part) for part in steps.parts(rule)) for rule in chosen)
    if scene is None:
        return Explanation(cause, chosen, conditions)
    trials = [(subject, _trial(rule, subject)) for subject in scene.subjects for rule in chosen]
    telling = [(subject, trial) for subject, trial in trials if subject.named or _tells(trial, subject)]
    places = {id(subject) for subject, _ in telling}
    return Explanation(
        cause, chosen, conditions, tuple(trial for _, trial in telling), len(scene.judged) - len(places))


def _tells(trial: Trial, subject: Subject) -> bool:
    """Does a trial say more than that nothing of the rule is there?"""
    heard = any(step.excused or (step.found and step.found[0].line and "unless" not in step.condition.word)
                for step in trial.steps)
    unsure = trial.answer == _word(Trit.UNKNOWN) and subject.enumerated
    return trial.answer == _word(Trit.YES) or heard or unsure


def _trial(rule: Rule, subject: Subject) -> Trial:
    judged = [(part, steps.judged(part, subject)) for part in steps.parts(rule)]
    excusing = frozenset(judgement.because for _, judgement in judged if judgement.excused)
    tried = tuple(_step(part, _of_use(part, judgement, excusing), subject) for part, judgement in judged)
    return Trial(rule.id, subject.address, subject.slot_name, _word(judge(rule, subject).answer), tried)


def _of_use(part: steps.Part, judgement: Judgement, excusing: frozenset[str]) -> Judgement:
    """A line that could excuse others and excuses none of those here comes to nothing: of another BAR, or too early."""
    if part.word != "unless" or not judgement.hits or any(hit.line.text.strip() in excusing for hit in judgement.hits):
        return judgement
    return replace(judgement, answer=Trit.NO, because="it is there, and excuses no line of the rule")


def _step(part: steps.Part, judgement: Judgement, subject: Subject) -> Step:
    sources = subject.device.sources if isinstance(subject.device, Probed) else {}
    lines = tuple(line_of(hit) for hit in judgement.hits)
    facts = tuple(
        Evidence(source_of(name, sources), None, f"{name}: {shown(value)}") for name, value in judgement.facts)
    if part.group is not None:      # its own parts say what was found
        lines = facts = ()
    return Step(
        _condition(part), _word(judgement.answer), (*lines[:_MOST_LINES], *facts),
        tuple(line_of(hit) for hit in judgement.excused)[:_MOST_LINES], judgement.because,
    )


def _condition(part: steps.Part) -> Condition:
    return Condition(part.depth, part.word, part.text)


def _word(answer: Trit) -> str:
    return answer.name.lower()
