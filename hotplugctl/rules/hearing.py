"""Which lines of a log match which patterns of the rules, found in one pass.

A rule set has some hundred patterns, a log some thousand lines; most lines match none. Each pattern is therefore tried
only on lines that hold one of the fixed texts that it cannot match without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ..model import LogLine, Rule

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matched: `order` is its place among all lines looked at, `groups` what the named groups caught."""

    line: LogLine
    order: int
    groups: Mapping[str, str]


def patterns_of(when: Any) -> Iterator[str]:
    """Every log pattern in a condition, those of `unless` too."""
    if isinstance(when, Mapping):
        if "log" in when:
            yield when["log"]
        for value in when.values():
            yield from patterns_of(value)
    elif isinstance(when, (list, tuple)):
        for value in when:
            yield from patterns_of(value)


# Characters of a line that rules see. Longer ones are no messages, and patterns take their time over them.
MOST = 8192


def hear(rules: Iterable[Rule], lines: Sequence[LogLine]) -> dict[str, list[Hit]]:
    """The matching lines of every pattern, in the order of `lines`."""
    by_text: dict[str, list[str]] = {}
    for pattern in dict.fromkeys(p for rule in rules for p in patterns_of(rule.when)):
        for fixed in fixed_texts(pattern):
            by_text.setdefault(fixed, []).append(pattern)
    sieve = Sieve(by_text)
    heard: dict[str, list[Hit]] = {}
    for order, line in enumerate(lines):
        content = line.text[:MOST]
        for pattern in sieve.candidates(content.casefold()):
            match = _compiled(pattern).search(content)
            if match is not None and not _quoted(line, match):
                groups = {key: value for key, value in match.groupdict().items() if value is not None}
                heard.setdefault(pattern, []).append(Hit(line, order, groups))
    return heard


# A format string is source code: `"... from %s to D0\n",`.
_SOURCE_CODE = re.compile(r"%[-+#0 ]?\d{0,3}(?:\.\d{1,3})?(?:hh?|ll?|z)?[sduxXpc](?![A-Za-z])|\\n\"[,);]*\s*$")


# A command that somebody or something ran is no message of the kernel, whatever stands in it.
_COMMANDS = re.compile(r"(?:CRON|crond?|anacron|sudo)\[?\d*\]?: .*\b(?:CMD|COMMAND)\b")


# What a program of its own said, not the kernel.
_PROGRAM = re.compile(r"(?!kernel\b)[A-Za-z][\w./@-]{0,60}\[\d{1,10}\]: ")
# Neither `key="what it says"` nor klog's `file.go:1] "message"` is a quotation.
_QUOTES = re.compile(r"(?<![=\w\\])(?<!\] )(?P<mark>['\"`])[^'\"`\n]{1,400}(?P=mark)")


def _in_quotes(text: str, match: re.Match[str]) -> bool:
    return any(quoted.start() < match.start() and match.end() < quoted.end() for quoted in _QUOTES.finditer(text))


def _quoted(line: LogLine, match: re.Match[str]) -> bool:
    """Does prose or source code only speak of such a line? What a log's own form stamped was said, not quoted."""
    if _COMMANDS.match(line.text) or (_PROGRAM.match(line.text) and _in_quotes(line.text, match)):
        return True
    if line.monotonic is not None or line.time is not None:
        return False
    text = line.text.strip()
    if _SOURCE_CODE.search(text):
        return True
    start = match.start() - line.text.index(text)
    within = text[:start].count("`") % 2 == 1 and "`" in text[start:]
    return within and text.strip("`").count("`") > 0


class Sieve(Generic[T]):
    """Finds which of some hundred fixed texts stand in a line, without looking for most of them.

    Wherever a text of five characters begins, three of it lie together at a place that is a multiple of three. It is
    filed under each three that this can be, and only every third place of a line is looked at.
    """

    def __init__(self, by_text: Mapping[str, Sequence[T]]) -> None:
        self.short = [(fixed, patterns) for fixed, patterns in by_text.items() if len(fixed) < 2 * _GRAM - 1]
        self.filed: dict[str, list[tuple[str, Sequence[T]]]] = {}
        for fixed, patterns in by_text.items():
            if len(fixed) >= 2 * _GRAM - 1:
                for key in {fixed[at:at + _GRAM] for at in range(_GRAM)}:
                    self.filed.setdefault(key, []).append((fixed, patterns))

    def candidates(self, folded: str) -> set[T]:
        """The patterns that a line may match."""
        found = {p for fixed, patterns in self.short if fixed in folded for p in patterns}
        for key in self.filed.keys() & {folded[at:at + _GRAM] for at in range(0, len(folded) - _GRAM + 1, _GRAM)}:
            for fixed, patterns in self.filed[key]:
                if fixed in folded:
                    found.update(patterns)
        return found


_GRAM = 3


def must_hear(when: Mapping[str, Any]) -> frozenset[str] | None:
    """Patterns of which at least one must match before the condition can hold; None where facts may do alone."""
    if "log" in when:
        return frozenset({when["log"]})
    if "all" in when:
        bound = [heard for heard in map(must_hear, when["all"]) if heard is not None]
        return min(bound, key=len, default=None)
    if "any" in when:
        parts = [must_hear(condition) for condition in when["any"]]
        return None if None in parts else frozenset().union(*(part for part in parts if part is not None))
    return None


@lru_cache(maxsize=2048)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# What `fixed_texts` gives for the patterns of the shipped rules: worked out when those are compiled.
TEXTS: dict[str, tuple[str, ...]] = {}


def fixed_texts(pattern: str) -> tuple[str, ...]:
    """Lower-case texts of which every match holds at least one; `("",)` when the pattern promises none."""
    known = TEXTS.get(pattern)
    return _fixed_texts(pattern) if known is None else known


@lru_cache(maxsize=2048)
def _fixed_texts(pattern: str) -> tuple[str, ...]:
    """The same, worked out of the pattern.

    An alternative promises each run of plain characters in it, and one text of each group in it that must match; the
    promise whose shortest text is longest is the most telling.
    """
    texts: list[str] = []
    for alternative in _split(re.sub(r"^\(\?[aimsux]+\)", "", pattern)):
        texts += max(_promises(alternative), key=lambda promise: min(map(len, promise)))
    return ("",) if any(len(text) < 2 for text in texts) else tuple(dict.fromkeys(texts))


def _split(pattern: str) -> list[str]:
    """The alternatives of a pattern's outermost level."""
    parts, start = [], 0
    for at, depth, char in _walk(pattern):
        if char == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
    return [*parts, pattern[start:]]


def _walk(pattern: str) -> Iterator[tuple[int, int, str]]:
    """(place, depth, character); an escape is its two characters at once, a class and a quantifier their brackets."""
    depth, at = 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            yield at, depth, pattern[at:at + 2]
            at += 2
            continue
        if char == "[":
            yield at, depth, "["
            at += 2 if pattern[at + 1:at + 2] == "]" else 3 if pattern[at + 1:at + 3] == "^]" else 1
            while at < len(pattern) and pattern[at] != "]":
                at += 2 if pattern[at] == "\\" else 1
            yield at, depth, "]"
            at += 1
            continue
        if char == "{":
            yield at, depth, "{"
            at = pattern.find("}", at) + 1 or len(pattern)
            continue
        if char == ")":
            depth -= 1
        yield at, depth, char
        if char == "(":
            depth += 1
        at += 1


_OPTIONAL = ("?", "*", "{")
_SPECIAL = frozenset(".^$+|()[]?*{}")
# A group that must match: plain, (?:...) or named; not a look-around or a back-reference.
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>)?(?!\?)")


def _promises(alternative: str) -> Iterator[tuple[str, ...]]:
    """Sets of texts, of each of which a match of the alternative holds one; the empty text at last."""
    run, opened = "", 0
    for at, depth, char in _walk(alternative):
        if depth:
            continue
        plain = char[-1] if char not in _SPECIAL and not (len(char) == 2 and char[1].isalnum()) else ""
        optional = alternative[at + len(char):at + len(char) + 1] in _OPTIONAL
        if plain and not optional:
            run += plain
            continue
        if run:
            yield (run.casefold(),)
        run = ""
        if char == "(":
            opened = at
        elif char == ")" and not optional:
            start = _GROUP.match(alternative, opened)
            if start is not None:
                yield _fixed_texts(alternative[start.end():at])
    yield (run.casefold(),)


def of_machine(when: Any) -> bool:
    """Does a condition ask for facts of the machine as a whole, and for nothing else?"""
    names = tuple(_facts_of(when))
    return bool(names) and not any(patterns_of(when)) and all(name.startswith("machine.") for name in names)


def _facts_of(when: Any) -> Iterator[str]:
    if isinstance(when, Mapping):
        if isinstance(when.get("fact"), str):
            yield when["fact"]
        for value in when.values():
            yield from _facts_of(value)
    elif isinstance(when, (list, tuple)):
        for value in when:
            yield from _facts_of(value)


def seconds(line: LogLine) -> float | None:
    """When a line was written, on its log's own clock; None when it does not say."""
    if line.monotonic is not None:
        return line.monotonic
    return _clock(line.time) if line.time is not None else None


@lru_cache(maxsize=8192)
def _clock(time: str) -> float | None:
    # `--03-02T08:10:01` is a syslog stamp: it has no year (ISO 8601:2000, truncated form). Any leap year will do.
    full = f"2000-{time[2:]}" if time.startswith("--") else time
    try:
        return datetime.fromisoformat(full).timestamp()
    except (ValueError, OverflowError, OSError):        # the year 1 lies before any clock of the C library
        return None


def same_clock(one: LogLine, other: LogLine) -> bool:
    """Can the times of two lines be compared?"""
    if one.source == other.source:
        return (one.monotonic is None) == (other.monotonic is None)
    if one.monotonic is not None or other.monotonic is not None:
        return False
    return one.time is not None and other.time is not None and len(one.time) > 19 and len(other.time) > 19
