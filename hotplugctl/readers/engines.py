"""Engines that find the lines of a large log which match any of some hundred patterns, all with the same answer.

An engine is a row: its module, from how many bytes on it is worth its start, and what makes a Finder of patterns.
Their weaker forms are `rules.weaken`'s, so that every engine takes them. Two come with the extra `scan`; Python's own
is always there.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..rules.hearing import Sieve, fixed_texts
from ..rules.weaken import weaker

# Bytes -> places in them, in order, at least one in each line that matches and none in another.
Finder: TypeAlias = Callable[[bytes], Iterable[int]]
_RE2_MEMORY = 64 << 20      # of automaton states; with less, RE2 falls back to a slow search


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pattern to look for in bytes, and texts in lower case of which every match holds one; none if it need not."""

    weak: bytes
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """A row: `least` is the size of log in bytes from which it wins over the rows below it."""

    name: str
    module: str
    least: int
    build: Callable[[Any, Sequence[Wanted]], Finder]


def _hyperscan(module: Any, wanted: Sequence[Wanted]) -> Finder:
    database = module.Database(mode=module.HS_MODE_BLOCK)
    count = len(wanted)
    database.compile(
        expressions=[one.weak for one in wanted], ids=list(range(count)), elements=count, flags=[0] * count)

    def find(block: bytes) -> list[int]:
        places: list[int] = []
        database.scan(block, match_event_handler=lambda _id, _start, end, _flags, _context: places.append(end - 1))
        places.sort()
        return places

    return find


def _re2(module: Any, wanted: Sequence[Wanted]) -> Finder:
    options = module.Options()
    options.encoding = module.Options.Encoding.LATIN1
    options.max_mem = _RE2_MEMORY
    options.never_capture = True
    options.log_errors = False
    together = b"|".join(b"(?:%s)" % one.weak for one in wanted)
    return _one_by_one(module.compile(together, options=options).search)


def _python(_module: Any, wanted: Sequence[Wanted]) -> Finder:
    """A line is asked for the patterns only that it holds a fixed text of."""
    by_text: dict[str, list[re.Pattern[bytes]]] = {}
    others = []
    for one in wanted:
        compiled = re.compile(one.weak)
        if not one.texts:
            others.append(_one_by_one(compiled.search))
        for text in one.texts:
            by_text.setdefault(text, []).append(compiled)
    texts = Sieve(by_text)

    def find(block: bytes) -> list[int]:
        lines = {block.rfind(b"\n", 0, at) + 1 for other in others for at in other(block)}
        at = 0
        for folded in block.lower().decode("latin-1").split("\n"):
            end = at + len(folded)
            if any(pattern.search(block, at, end) for pattern in texts.candidates(folded)):
                lines.add(at)
            at = end + 1
        return sorted(lines)

    return find


def _one_by_one(search: Callable[[bytes, int], Any]) -> Finder:
    """A Finder of a `search(block, from)`; it goes on behind the line that has matched."""

    def find(block: bytes) -> Iterator[int]:
        at = 0
        while (match := search(block, at)) is not None:
            yield match.start()
            at = block.find(b"\n", match.end()) + 1
            if not at:
                return

    return find


ENGINES: tuple[Engine, ...] = (
    Engine("hyperscan", "hyperscan", 128 << 20, _hyperscan),      # compiles in a third of a second, RE2 in a hundredth
    Engine("re2", "re2", 0, _re2),
    Engine("python", "re", 0, _python),
)


def finder(patterns: Sequence[str], size: int, only: str | None = None) -> tuple[str, Finder]:
    """The name and Finder of the best engine that is installed for a log of so many bytes; `only` names one.

    Raises ImportError for an `only` that is not installed.
    """
    wanted = [one for one in ENGINES if only in (None, one.name)]
    wanted.sort(key=lambda one: size < one.least)
    weak = {weaker(pattern): pattern for pattern in patterns}
    looked_for = [Wanted(one.encode(), _texts(pattern)) for one, pattern in weak.items()]
    for engine in wanted:
        try:
            return engine.name, engine.build(importlib.import_module(engine.module), looked_for)
        except ImportError:
            if only is not None:
                raise
        except Exception:
            # Not on this processor, or a pattern too large for it; each engine has errors of its own.
            if engine is wanted[-1]:
                raise
    raise ImportError(f"no engine {only}")


# JSON writes these otherwise, and so does UTF-8.
_SPELT_OTHERWISE = re.compile(r'["/\\]|[^\x20-\x7e]')
_LEAST = 2


def _texts(pattern: str) -> tuple[str, ...]:
    parts = [max(_SPELT_OTHERWISE.split(text), key=len) for text in fixed_texts(pattern)]
    return () if any(len(part) < _LEAST for part in parts) else tuple(parts)
