"""A pattern of a rule -> a weaker one in the syntax that every scanning engine takes. Pure.

What the rule's own pattern finds in the text of a line, the weaker one finds in the line's bytes as a file has them:
behind a stamp, in UTF-8, as JSON escapes it. It may find more; the rule's own pattern is asked afterwards.
Look-arounds, back-references and anchors go, counted runs of wild cards become unbounded, and nothing reaches over a
line's end.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Python's own parser: its tree is the only description of a pattern that cannot differ from what `re` does.
try:
    _parser: Any = importlib.import_module("re._parser")
except ImportError:                         # before Python 3.11
    _parser = importlib.import_module("sre_parse")

_ASCII = range(128)
_HIGH = r"\x80-\xff"                        # a byte of a character beyond ASCII, which may be a letter, digit or space
_SETS: Mapping[str, frozenset[int]] = {
    "DIGIT": frozenset(b"0123456789"),
    "SPACE": frozenset(b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f "),
    "WORD": frozenset(c for c in _ASCII if chr(c).isalnum() or chr(c) == "_"),
}
_MOST_COUNTED = 64                          # longer counts make automata large
# JSON escapes these, or may; a reader takes the escape off before a rule sees the text.
_ESCAPED_TAB = r"\\t"
_ESCAPED = {'"': r'\\?"', "/": r"\\?/", "\\": r"\\+", "\t": r"(?:\t|\\t)"}


def weaker(pattern: str) -> str:
    """The weaker pattern, for bytes. Raises re.error for what is no pattern."""
    tree = _parser.parse(pattern)
    return _sequence(tree, tree.state.flags)


def finds_anything(weak: str) -> bool:
    """Would a weaker pattern find every line? Then there is nothing to scan for."""
    return re.search(weak.encode(), b"") is not None


def _sequence(tree: Any, flags: int) -> str:
    return "".join(_FORMS.get(str(op), _unknown)(value, flags) for op, value in tree)


def _unknown(_value: Any, _flags: int) -> str:
    return r"[^\n]*"


def _literal(code: int, flags: int) -> str:
    char = chr(code)
    if code not in _ASCII:
        # As bytes, as JSON's \uXXXX, or in another case.
        return rf"(?:[{_HIGH}]+|\\u[0-9A-Fa-f]+)"
    if char in _ESCAPED:
        return _ESCAPED[char]
    if flags & re.IGNORECASE and char.isalpha():
        return f"[{char.lower()}{char.upper()}]"
    return _byte(code)


def _byte(code: int) -> str:
    return chr(code) if chr(code).isalnum() or chr(code) in " _" else f"\\x{code:02x}"


def _in(items: Sequence[tuple[Any, Any]], flags: int) -> str:
    """One character of a class; one beyond ASCII is several bytes."""
    codes, high = _members(items, flags)
    escaped = r"\\?" if codes & set(b'"/\\') else ""
    ways = [f"{escaped}[{_runs(codes)}]"] if _runs(codes) else []
    ways += [_ESCAPED_TAB] if ord("\t") in codes else []
    ways += [f"[{_HIGH}]+"] if high or not ways else []
    return f"(?:{'|'.join(ways)})" if len(ways) > 1 else ways[0]


def _members(items: Sequence[tuple[Any, Any]], flags: int) -> tuple[set[int], bool]:
    """The ASCII characters of a class, and whether it may hold others."""
    codes: set[int] = set()
    high = negated = False
    for op, value in items:
        name = str(op)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            codes.add(value)
        elif name == "RANGE":
            codes.update(range(value[0], min(value[1], 127) + 1))
            high = high or value[1] not in _ASCII
        else:
            kind = str(value)
            members = next((chars for word, chars in _SETS.items() if kind.endswith(word)), frozenset(_ASCII))
            codes |= set(_ASCII) - members if "_NOT_" in kind else members
            high = True
    high = high or any(code not in _ASCII for code in codes)
    codes &= set(_ASCII)
    if flags & re.IGNORECASE:
        codes |= {ord(chr(code).swapcase()) for code in codes if chr(code).isalpha()}
    return (set(_ASCII) - codes, True) if negated else (codes, high)


def _runs(codes: set[int]) -> str:
    runs: list[list[int]] = []
    for code in sorted(codes - {0x0A}):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(_byte(a) if a == b else f"{_byte(a)}-{_byte(b)}" for a, b in runs)


def _repeat(value: tuple[int, int, Any], flags: int) -> str:
    least, most, inner = value
    weak = _sequence(inner, flags)
    if not weak:
        return ""
    kind, items = (str(inner[0][0]), inner[0][1]) if len(inner) == 1 else ("", ())
    if kind in _WILD:
        codes, high = _members(_WILD[kind](items), flags)
        if high:
            codes |= set(b"\\t") if ord("\t") in codes else set()      # as JSON writes a tab
            return f"[{_runs(codes)}{_HIGH}]{'+' if least else '*'}"
    if (least, most) == (0, 1):
        count = "?"
    elif max(least, most) > _MOST_COUNTED:
        count = "+" if least else "*"
    else:
        count = f"{{{least},{most}}}"
    return f"(?:{weak}){count}"


def _branch(value: tuple[Any, Sequence[Any]], flags: int) -> str:
    return f"(?:{'|'.join(_sequence(branch, flags) for branch in value[1])})"


def _group(value: tuple[Any, int, int, Any], flags: int) -> str:
    _, added, removed, inner = value
    return f"(?:{_sequence(inner, (flags | added) & ~removed)})"


def _at(place: Any, _flags: int) -> str:
    # JSON writes a line's end or a tab before a word as a backslash and a letter. The ends of a line's text are not
    # those of the line, whose stamp is taken off.
    return r"(?:\b|\\[bfnrt])" if str(place) == "AT_BOUNDARY" else ""


_NOTHING = (("NEGATE", None),)
# What may stand for a character beyond ASCII, as the items of a class.
_WILD: Mapping[str, Callable[[Any], Sequence[tuple[Any, Any]]]] = {
    "IN": lambda items: items,
    "ANY": lambda _value: _NOTHING,
    "NOT_LITERAL": lambda code: (*_NOTHING, ("LITERAL", code)),
}
_FORMS: Mapping[str, Callable[[Any, int], str]] = {
    "LITERAL": _literal,
    "NOT_LITERAL": lambda code, flags: _in(_WILD["NOT_LITERAL"](code), flags),
    "ANY": lambda _value, flags: _in(_NOTHING, flags),
    "IN": _in,
    "BRANCH": _branch,
    "SUBPATTERN": _group,
    "ATOMIC_GROUP": lambda inner, flags: f"(?:{_sequence(inner, flags)})",
    "MAX_REPEAT": _repeat, "MIN_REPEAT": _repeat, "POSSESSIVE_REPEAT": _repeat,
    "AT": _at,
    "ASSERT": lambda _value, _flags: "", "ASSERT_NOT": lambda _value, _flags: "",
}
