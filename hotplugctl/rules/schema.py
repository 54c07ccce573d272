"""The schemas of rule, profile and taxonomy files, and the plain-dict form in which both travel as JSON.

YAML nodes -> plain dict (checked, typed) -> dataclass. The shipped JSON and the profiles in a bundle hold the
plain dict.
"""

from __future__ import annotations

from ..model import Layer, Severity
from . import grammar
from .shapes import (
    Shape,
    anything,
    boolean,
    duration,
    list_of,
    map_of,
    nullable,
    number,
    one_of,
    pattern,
    record,
    size,
    text,
    text_or_list,
)

RULES = "hotplugctl.rules/1"
PROFILE = "hotplugctl.profile/1"

_SEVERITY = one_of(*(severity.value for severity in Severity))
_RUNG = one_of("detected", "identified", "mapped", "bound", "initialised", "ready")
_REPAIRS = (
    "none", "wait", "retry", "release", "restart", "rescan", "reset", "power-cycle", "reseat", "replace", "fix-config",
    "install", "update", "reboot",
)


def rule_shape(root_cause: Shape) -> Shape:
    """One rule; `root_cause` checks ids against the taxonomy."""
    return record(
        {
            "id": text, "root_cause": root_cause, "severity": _SEVERITY, "title": text, "when": grammar.condition,
            "cause": text, "action": text, "confidence": one_of("certain", "likely", "possible"),
            "blocks": nullable(_RUNG), "explains": list_of(root_cause),
            "examples": record({"fires": anything, "quiet": anything}, required=("fires", "quiet")),
        },
        required=("id", "root_cause", "title", "when", "cause", "examples"),
    )


_MATCH_FIELDS: dict[str, Shape] = {
    "vendor": text_or_list, "device": list_of(text), "class": list_of(text),
}

PROFILE_SHAPE = record(
    {
        "schema": one_of(PROFILE), "id": text, "name": text,
        "match": record({**_MATCH_FIELDS, "exclude": record(_MATCH_FIELDS)}),
        "models": map_of(text), "drivers": list_of(text), "passthrough": list_of(text), "classes": list_of(text),
        "nodes": list_of(text), "index": record({"attribute": text}, required=("attribute",)), "groups": list_of(text),
        "bars": list_of(record({"index": number, "min_size": size}, required=("index",))),
        "initialised": record({"attribute": text, "equals": text}, required=("attribute", "equals")),
        "handshake": record(
            {
                "argv": list_of(text), "expect": pattern, "timeout": duration, "passes": number, "interval": duration,
                "max_age": duration,
            },
            required=("argv",),
        ),
        "readiness": one_of("full", "lazy"),
        "tools": map_of(record({"argv": list_of(text), "parse": text}, required=("argv", "parse"))),
        "logs": list_of(record({"path": text, "kind": text}, required=("path", "kind"))),
        "quiesce": list_of(record({"unit": text, "why": text}, required=("unit", "why"))),
        "any_driver": boolean,
    },
    required=("schema", "id", "name", "match"),
)

TAXONOMY_SHAPE = record(
    {
        "version": number, "bdf_rule": text, "severity": map_of(text), "repairs": list_of(text),
        "layers": list_of(text),
        "root_causes": map_of(
            record(
                {
                    "layer": one_of(*(layer.value for layer in Layer), "none"), "coarse": text, "severity": _SEVERITY,
                    "repair": one_of(*_REPAIRS), "meaning": text, "action": text,
                },
                required=("layer", "severity", "repair", "meaning", "action"),
            )
        ),
    },
    required=("root_causes",),
)
