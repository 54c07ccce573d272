"""A rule's condition part by part: how each is written, and how it comes out for a subject. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..model import Rule
from .judge import COMPARE, Judgement, Subject, judge_condition

_GROUPS = ("all", "any")


@dataclass(frozen=True, slots=True)
class Part:
    """A condition within a rule: how deep it stands, the word it stands under, and what excuses its lines.

    It is a fact, a log pattern, or a group of them, whose own parts come after it, one deeper.
    """

    depth: int
    word: str               # all, any, unless, when; `not` behind it where it is denied
    condition: Mapping[str, Any]
    excuses: tuple[Mapping[str, Any], ...] = ()

    @property
    def group(self) -> str | None:
        """The word of a group, None of a fact or a pattern."""
        return next((one for one in _GROUPS if one in self.condition), None)

    @property
    def text(self) -> str:
        """The condition as a person reads it: the fact or pattern, then what is asked of it."""
        if self.group is not None:
            return f"{self.group} of these"
        head = next(key for key in ("fact", "log") if key in self.condition)
        asked = (_ASKED[key](value) for key, value in self.condition.items() if key != head)
        return ", ".join((f"{head} {self.condition[head]}", *asked))


def _compared(word: str) -> Callable[[Any], str]:
    return lambda value: f"{word} fact {value['fact']}" if isinstance(value, Mapping) else f"{word} {value}"


_ASKED: Mapping[str, Callable[[Any], str]] = {
    **{word: _compared(word) for word in (*COMPARE, "is")},
    "count": lambda value: f"at least {value['ge']} times",
    "within": lambda value: f"within {value:g} s",
    "after": lambda value: "after it" if value else "before or after it",
    "before": lambda value: "before it" if value else "before or after it",
    "unless": lambda value: "and not since then " + " or ".join(f"log {one.get('log')}" for one in value),
}


def parts(rule: Rule) -> tuple[Part, ...]:
    """The condition, a fact or a log pattern each, in the order in which it is written."""
    return tuple(_parts(rule.when, "when", 0, ()))


def _parts(
    when: Mapping[str, Any], word: str, depth: int, excuses: tuple[Mapping[str, Any], ...]
) -> Iterator[Part]:
    unless = when.get("unless", ())
    inner = (*excuses, *(condition for condition in unless if "log" in condition))
    group = next((one for one in _GROUPS if one in when), None)
    if group is not None:
        if depth:
            yield Part(depth - 1, word, when, excuses)
        for part in when[group]:
            yield from _parts(part, group, depth + any(one in part for one in _GROUPS), inner)
    elif "not" in when:
        yield from _parts(when["not"], f"{word} not", depth, inner)
    else:
        leaf = {key: value for key, value in when.items() if key != "unless" or "before" in when}
        yield Part(depth, word, leaf, inner)
    for part in unless if group is not None or "before" not in when else ():
        yield from _parts(part, "unless", depth, ())


def judged(part: Part, subject: Subject) -> Judgement:
    """How one part comes out, whatever becomes of the others; a denied one as it stands, before it is denied."""
    return judge_condition(part.condition, subject, part.excuses)
