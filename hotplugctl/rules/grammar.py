"""The `when` language of rules: its shapes for the loader. What the words mean is in `judge.py`."""

from __future__ import annotations

from typing import Any

import yaml

from . import facts
from .shapes import (
    BAD,
    Node,
    Problems,
    Shape,
    boolean,
    duration,
    list_of,
    near,
    number,
    one_of,
    pairs,
    pattern,
    record,
    text,
)

_ORDERS = ("lt", "le", "gt", "ge")
COMPARISONS = ("eq", "ne", *_ORDERS, "in", "contains")
_GROUPS = ("all", "any")


def condition(problems: Problems, node: Node) -> Any:
    """One condition: all, any, not, a comparison, `is`, or a log pattern; `unless` may stand beside any of them."""
    found = pairs(problems, node)
    if found is None:
        return BAD
    heads = [key for key in ("all", "any", "not", "fact", "log") if key in found]
    if len(heads) != 1:
        known = "all, any, not, fact, log"
        wrong = next((key for key in found if key not in (*known.split(", "), "unless")), "")
        hint = f" ({wrong}{near(wrong, known.split(', '))})" if wrong else ""
        return problems.add(node, f"a condition needs exactly one of {known}{hint}")
    value = _HEADS[heads[0]](problems, node)
    return BAD if value is BAD else value


def _unless(problems: Problems, node: Node) -> Any:
    return list_of(condition)(problems, node)


_COUNT = record({"ge": number}, required=("ge",))
_LOG = record(
    {
        "log": pattern, "count": _COUNT, "within": duration, "after": boolean, "before": boolean, "unless": _unless,
    }, required=("log",),
)


def _group(word: str) -> Shape:
    return record({word: list_of(condition), "unless": _unless}, required=(word,))


def _not(problems: Problems, node: Node) -> Any:
    return record({"not": condition, "unless": _unless})(problems, node)


def _fact_name(problems: Problems, node: Node) -> Any:
    value = text(problems, node)
    if value is BAD:
        return BAD
    return value if facts.is_fact(value) else problems.add(
        node, f"no fact named {value}{near(value, facts.names())}"
    )


def _fact(problems: Problems, node: Node) -> Any:
    found = pairs(problems, node) or {}
    name = found["fact"][1].value if isinstance(found["fact"][1], yaml.ScalarNode) else ""
    kind = facts.names().get(name, object)
    shapes: dict[str, Shape] = {"fact": _fact_name, "is": one_of("present", "absent", "unknown"), "unless": _unless}
    for word in COMPARISONS:
        shapes[word] = _operand(_type(kind, word), several=word == "in")
    value = record(shapes)(problems, node)
    if value is BAD:
        return BAD
    if len([key for key in value if key in ("is", *COMPARISONS)]) != 1:
        return problems.add(node, f"fact {name} needs exactly one of is, {', '.join(COMPARISONS)}")
    return value


def _type(kind: type, word: str) -> type:
    """The operand's type: the fact's own; an open fact (`runtime.NAME`) is ordered as a number."""
    if word == "contains":
        return object
    return int if kind is object and word in _ORDERS else kind


def _operand(kind: type, *, several: bool) -> Shape:
    """The right side of a comparison: another fact, or a value of the left side's own type."""

    def shape(problems: Problems, node: Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            return record({"fact": _fact_name}, required=("fact",))(problems, node)
        one: Shape = boolean if kind is bool else number if kind in (int, float) else text
        return list_of(one)(problems, node) if several else one(problems, node)

    return shape


_HEADS: dict[str, Shape] = {
    "all": _group("all"), "any": _group("any"), "not": _not, "fact": _fact, "log": _LOG,
}
