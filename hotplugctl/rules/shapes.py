"""YAML read by nodes: every value has a line, its type comes from our schema, and all errors are gathered.

YAML 1.1 would read an unquoted `0000:17:00.0` as the float 1020.0 and `no` as False, and would silently keep the last
of two equal keys. A *shape* is a function (problems, node) -> plain value or BAD; shapes are combined into schemas.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from ..errors import Exit, HotplugError

Node: TypeAlias = yaml.Node
BAD: Final[Any] = object()


@dataclass
class Problems:
    """The errors of all files, gathered while their nodes are read."""

    found: list[str] = field(default_factory=list)
    file: str = ""
    about: str = ""

    def add(self, node: Node | None, text: str) -> Any:
        """Note an error at the node's line; returns BAD for the caller to return."""
        line = f":{node.start_mark.line + 1}" if node is not None else ""
        self.found.append(f"{self.file}{line}: {self.about}{text}")
        return BAD

    def check(self, what: str, hint: str = "man 5 hotplugctl-rules") -> None:
        """Raise one HotplugError with every error found, if there is any."""
        if self.found:
            count = f"{len(self.found)} errors" if len(self.found) > 1 else "an error"
            raise HotplugError(
                f"{what}: {count}", why="\n".join(self.found), hint=hint, exit=Exit.USAGE
            )


Shape: TypeAlias = Callable[[Problems, Node], Any]


def compose(problems: Problems, path: Path) -> Node | None:
    """The root node of a YAML file, or None with the error noted."""
    problems.file = str(path)
    problems.about = ""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)     # ten times as fast, where libyaml is there
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=loader)
    except OSError as error:
        problems.add(None, f"cannot be read ({error.strerror})")
        return None
    except UnicodeDecodeError:
        problems.add(None, "is not UTF-8 text")
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        problems.found.append(f"{path}{line}: {error.problem or 'not YAML'}")
        return None
    except (yaml.YAMLError, RecursionError) as error:
        problems.add(None, f"not YAML ({error})")
        return None
    if node is None:
        problems.add(None, "is empty")
    return node


def near(name: str, known: Iterable[str]) -> str:
    """` (link.width?)`: the nearest known name, to be put behind an unknown one."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" ({match[0]}?)" if match else ""


def text(problems: Problems, node: Node) -> Any:
    """A scalar, as it is written; `null` and `~` are None only where `nullable` allows them."""
    if not isinstance(node, yaml.ScalarNode):
        return problems.add(node, "expected a text")
    return node.value


def boolean(problems: Problems, node: Node) -> Any:
    """true or false, and nothing that merely looks like it."""
    if isinstance(node, yaml.ScalarNode) and node.value in ("true", "false"):
        return node.value == "true"
    return problems.add(node, f"expected true or false, not {_shown(node)}")


def number(problems: Problems, node: Node) -> Any:
    """A whole number or a decimal fraction."""
    if isinstance(node, yaml.ScalarNode):
        for kind in (int, float):
            try:
                return kind(node.value)
            except ValueError:
                continue
    return problems.add(node, f"expected a number, not {_shown(node)}")


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def duration(problems: Problems, node: Node) -> Any:
    """`500ms`, `5s`, `5m` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", node.value) if isinstance(node, yaml.ScalarNode) else None
    if match is None:
        return problems.add(node, f"expected a duration such as 500ms, 5s or 5m, not {_shown(node)}")
    return float(match[1]) * _SECONDS[match[2]]


def size(problems: Problems, node: Node) -> Any:
    """`64M`, `16G` as bytes (powers of 1024)."""
    match = re.fullmatch(r"(\d+)([KMGT]?)", node.value) if isinstance(node, yaml.ScalarNode) else None
    if match is None:
        return problems.add(node, f"expected a size such as 64M or 16G, not {_shown(node)}")
    return int(match[1]) * _BYTES[match[2]]


def pattern(problems: Problems, node: Node) -> Any:
    """A regular expression that compiles."""
    value = text(problems, node)
    if value is BAD:
        return BAD
    try:
        re.compile(value)
    except re.error as error:
        return problems.add(node, f"not a regular expression: {error}")
    return value


def one_of(*values: str) -> Shape:
    """One of a few words."""

    def shape(problems: Problems, node: Node) -> Any:
        value = text(problems, node)
        if value is BAD or value in values:
            return value
        return problems.add(node, f"{value!r} is none of {', '.join(values)}{near(value, values)}")

    return shape


def nullable(inner: Shape) -> Shape:
    """The inner shape, or null."""

    def shape(problems: Problems, node: Node) -> Any:
        if isinstance(node, yaml.ScalarNode) and not node.style and node.value in ("null", "~", ""):
            return None
        return inner(problems, node)

    return shape


def items(problems: Problems, node: Node) -> list[Node]:
    """The nodes of a sequence; none, with the error noted, when it is something else."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    problems.add(node, "expected a list")
    return []


def list_of(inner: Shape) -> Shape:
    """A sequence of the inner shape."""

    def shape(problems: Problems, node: Node) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return problems.add(node, "expected a list")
        values = [inner(problems, item) for item in node.value]
        return BAD if any(value is BAD for value in values) else values

    return shape


def text_or_list(problems: Problems, node: Node) -> Any:
    """One text or several; always a list."""
    return list_of(text)(problems, node) if isinstance(node, yaml.SequenceNode) else _single(text(problems, node))


def _single(value: Any) -> Any:
    return BAD if value is BAD else [value]


def pairs(problems: Problems, node: Node) -> dict[str, tuple[Node, Node]] | None:
    """The (key, value) nodes of a mapping by key; a key twice is an error. None when it is no mapping."""
    if not isinstance(node, yaml.MappingNode):
        problems.add(node, "expected a mapping")
        return None
    found: dict[str, tuple[Node, Node]] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            problems.add(key, "a key must be a word")
        elif key.value in found:
            problems.add(key, f"{key.value} is there twice (first in line {found[key.value][0].start_mark.line + 1})")
        else:
            found[key.value] = (key, value)
    return found


def map_of(inner: Shape) -> Shape:
    """A mapping with any keys and values of the inner shape."""

    def shape(problems: Problems, node: Node) -> Any:
        found = pairs(problems, node)
        if found is None:
            return BAD
        values = {key: inner(problems, value) for key, (_, value) in found.items()}
        return BAD if any(value is BAD for value in values.values()) else values

    return shape


def record(shapes: Mapping[str, Shape], required: tuple[str, ...] = ()) -> Shape:
    """A mapping with known keys; every unknown one is named with its nearest neighbour, every lacking one too."""

    def shape(problems: Problems, node: Node) -> Any:
        found = pairs(problems, node)
        if found is None:
            return BAD
        values: dict[str, Any] = {}
        for key, (place, value) in found.items():
            if key not in shapes:
                problems.add(place, f"no key named {key}{near(key, shapes)}")
                values[key] = BAD
            else:
                values[key] = shapes[key](problems, value)
        for key in required:
            if key not in found:
                values[key] = problems.add(node, f"{key} is missing")
        return BAD if any(value is BAD for value in values.values()) else values

    return shape


# The C loader gives plain scalars the style "", the Python one None.
def anything(problems: Problems, node: Node) -> Any:
    """Plain values for examples: numbers, true, false and null by their looks, all else text."""
    if isinstance(node, yaml.SequenceNode):
        return [anything(problems, item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        found = pairs(problems, node)
        return BAD if found is None else {key: anything(problems, value) for key, (_, value) in found.items()}
    value = node.value
    if isinstance(node, yaml.ScalarNode) and not node.style:
        if value in ("null", "~", ""):
            return None
        if value in ("true", "false"):
            return value == "true"
        if re.fullmatch(r"-?\d+", value):
            return int(value)
        if re.fullmatch(r"-?\d+\.\d+", value):
            return float(value)
    return value


def _shown(node: Node) -> str:
    return repr(node.value) if isinstance(node, yaml.ScalarNode) else "a list or mapping"
