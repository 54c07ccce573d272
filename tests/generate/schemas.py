"""JSON Schemas (2020-12) of every document, from the type hints of the dataclasses.

All keys of a part are required, further ones are allowed: a document that lacks or misspells a key is refused, one of a
later version that has more is not. Each schema takes the whole document and, where `-o jsonl` writes such, its line.
"""

from __future__ import annotations

import enum
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

from hotplugctl.errors import Exit
from hotplugctl.model import Change, Device, Diagnosis, Kind, Plan, Probed, Slot, Unknown
from hotplugctl.output import documents


@dataclass(frozen=True)
class ErrorBody:
    """What went wrong, why, and the next thing to type."""

    code: int
    name: str
    what: str
    why: str | None
    hint: str | None


@dataclass(frozen=True)
class ErrorDocument:
    """Instead of a result, when there is none."""

    error: ErrorBody


@dataclass(frozen=True)
class Trouble:
    """What could not be read, or only half."""

    what: str
    why: str


@dataclass(frozen=True)
class Shapes:
    """What a document holds: `data` of the envelope, and the whole of a line. None = never written so."""

    data: Any = None
    line: type | None = None


DOCUMENTS: Mapping[str, Shapes] = {
    "devices": Shapes(data=tuple[Device, ...]),
    "device": Shapes(data=Probed | tuple[Probed, ...], line=Device),
    "slots": Shapes(data=tuple[Slot, ...]),
    "slot": Shapes(line=Slot),
    "diagnosis": Shapes(data=Diagnosis, line=Diagnosis),
    "change": Shapes(line=Change),
    "plan": Shapes(data=Plan | tuple[Plan, ...], line=Plan),
    "error": Shapes(line=ErrorDocument),
}

# Fields of type str that hold one of a few words.
WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Diagnosis", "verdict"): ("fault", "healthy", "unknown"),
    ("DeviceVerdict", "verdict"): ("fault", "healthy", "unknown"),
    ("Finding", "confidence"): ("certain", "likely", "possible"),
    ("LayerState", "state"): ("ok", "fault", "unknown"),
    ("Check", "state"): ("ok", "fault", "unknown"),
    ("ErrorBody", "name"): tuple(code.name.lower() for code in Exit),
}
_SIMPLE: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    type(None): {"type": "null"}, Any: {},
}
_UNKNOWN = {
    "description": "Could not look: why, and what kind of obstacle it was.",
    "type": "object", "required": ["unknown", "kind"],
    "properties": {"unknown": {"type": "string"}, "kind": {"enum": [kind.value for kind in Kind]}},
}


def maker(name: str) -> Callable[[], str]:
    """What makes the text of that schema."""
    return partial(text, name)


def text(name: str) -> str:
    """The schema of one document."""
    shapes = DOCUMENTS[name]
    parts: dict[str, Any] = {}
    forms = list(_forms(name, shapes, parts))
    body = forms[0] if len(forms) == 1 else {"if": {"required": ["data"]}, "then": forms[0], "else": forms[1]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:hotplugctl:{name}:1",
        "title": documents.schema(name), **body, "$defs": dict(sorted(parts.items())),
    }
    return json.dumps(schema, indent=1) + "\n"


def _forms(name: str, shapes: Shapes, parts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The envelope around `data`, then the bare line."""
    own: dict[str, Any] = {"schema": {"const": documents.schema(name)}}
    if shapes.data is not None:
        yield _object({
            **own, **{key: {"type": "string"} for key in ("tool", "host", "taken_at")},
            "data": _schema(shapes.data, parts), "errors": _schema(tuple[Trouble, ...], parts),
        })
    if shapes.line is not None:
        yield {**_object(own), "allOf": [_schema(shapes.line, parts)]}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _schema(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; dataclasses and Unknown are put into `parts` and referred to."""
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if hint is Unknown:
        parts["unknown"] = _UNKNOWN
        return {"$ref": "#/$defs/unknown"}
    if is_dataclass(hint) and isinstance(hint, type):
        return _part(hint, parts)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    return _composed(typing.get_origin(hint), typing.get_args(hint), parts)


def _composed(origin: Any, arguments: tuple[Any, ...], parts: dict[str, Any]) -> dict[str, Any]:
    if origin in (typing.Union, types.UnionType):
        found = [_schema(argument, parts) for argument in arguments]
        plain = [one["type"] for one in found if list(one) == ["type"]]
        rest = [one for one in found if list(one) != ["type"]]
        together = [{"type": plain if len(plain) > 1 else plain[0]}] if plain else []
        return together[0] if not rest else {"anyOf": [*rest, *together]}
    if origin in (tuple, list, frozenset):
        return {"type": "array", "items": _schema(arguments[0], parts)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], parts)}
    raise TypeError(f"no schema for {origin}[{arguments}]")


def _part(kind: type, parts: dict[str, Any]) -> dict[str, Any]:
    """A dataclass."""
    name = kind.__name__
    if name not in parts:
        parts[name] = {}  # it is being made: whoever refers to it meanwhile finds its place
        hints = typing.get_type_hints(kind)
        properties = {
            field.name.rstrip("_"): _worded(kind, field.name, _schema(hints[field.name], parts))
            for field in fields(kind)
        }
        parts[name] = {"description": described(kind), **_object(properties)}
    return {"$ref": f"#/$defs/{name}"}


def _worded(kind: type, field: str, schema: dict[str, Any]) -> dict[str, Any]:
    words = WORDS.get((kind.__name__, field))
    return {"enum": list(words)} if words is not None else schema


def described(kind: type) -> str:
    """A dataclass's docstring as one paragraph, with JSON's words for Python's."""
    found = " ".join((kind.__doc__ or "").split())
    return re.sub(r"\b(None|True|False)\b", lambda word: {"None": "null"}.get(word[0], word[0].lower()), found)
