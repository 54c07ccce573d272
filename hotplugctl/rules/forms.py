"""Rules, profiles and root causes to and from the plain dicts in which they travel as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import (
    AttributeIs,
    BarNeed,
    Handshake,
    Layer,
    LogFile,
    Match,
    Profile,
    Quiesce,
    RootCause,
    Rule,
    Severity,
    State,
    Tool,
)


def rule_from(plain: Mapping[str, Any], where: str = "") -> Rule:
    """A rule of its plain form."""
    severity, blocks = plain.get("severity"), plain.get("blocks")
    return Rule(
        id=plain["id"], root_cause=plain["root_cause"], title=plain["title"], when=plain["when"], cause=plain["cause"],
        severity=Severity(severity) if severity else None, action=plain.get("action"),
        confidence=plain.get("confidence", "likely"), blocks=State(blocks) if blocks else None,
        explains=tuple(plain.get("explains", ())), examples=plain.get("examples", {}), where=plain.get("where", where),
    )


def root_cause_from(name: str, plain: Mapping[str, Any]) -> RootCause:
    """An entry of the taxonomy. `none` has no layer of its own; it is filed under the lowest."""
    layer = Layer.HARDWARE if plain["layer"] == "none" else Layer(plain["layer"])
    return RootCause(
        id=name, layer=layer, severity=Severity(plain["severity"]), repair=plain["repair"], meaning=plain["meaning"],
        action=plain["action"],
    )


def _match_from(plain: Mapping[str, Any]) -> Match:
    exclude = plain.get("exclude")
    return Match(
        vendor=tuple(v.lower() for v in plain.get("vendor", ())),
        device=tuple(d.lower() for d in plain.get("device", ())),
        class_=tuple(c.lower() for c in plain.get("class", ())), exclude=_match_from(exclude) if exclude else None,
    )


def _match_to(match: Match) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    if match.vendor:
        plain["vendor"] = list(match.vendor)
    if match.device:
        plain["device"] = list(match.device)
    if match.class_:
        plain["class"] = list(match.class_)
    if match.exclude is not None:
        plain["exclude"] = _match_to(match.exclude)
    return plain


def profile_from(plain: Mapping[str, Any]) -> Profile:
    """A profile of its plain form (the keys of the YAML; durations in seconds, sizes in bytes)."""
    handshake, initialised, index = plain.get("handshake"), plain.get("initialised"), plain.get("index")
    return Profile(
        id=plain["id"], name=plain["name"], match=_match_from(plain["match"]),
        models={key.lower(): value for key, value in plain.get("models", {}).items()},
        drivers=tuple(plain.get("drivers", ())), passthrough=tuple(plain.get("passthrough", ())),
        classes=tuple(plain.get("classes", ())), nodes=tuple(plain.get("nodes", ())),
        index=index["attribute"] if index else None, groups=tuple(plain.get("groups", ())),
        bars=tuple(BarNeed(int(bar["index"]), int(bar.get("min_size", 0))) for bar in plain.get("bars", ())),
        initialised=AttributeIs(initialised["attribute"], initialised["equals"]) if initialised else None,
        handshake=Handshake(**{**handshake, "argv": tuple(handshake["argv"])}) if handshake else None,
        readiness=plain.get("readiness", "full"),
        tools={key: Tool(tuple(tool["argv"]), tool["parse"]) for key, tool in plain.get("tools", {}).items()},
        logs=tuple(LogFile(log["path"], log["kind"]) for log in plain.get("logs", ())),
        quiesce=tuple(Quiesce(unit["unit"], unit["why"]) for unit in plain.get("quiesce", ())),
        any_driver=bool(plain.get("any_driver", False)),
    )


def profile_to(profile: Profile) -> dict[str, Any]:
    """The plain form of a profile; `profile_from` reads it back to an equal one."""
    plain: dict[str, Any] = {"id": profile.id, "name": profile.name, "match": _match_to(profile.match)}
    lists = ("drivers", "passthrough", "classes", "nodes", "groups")
    plain.update({key: list(getattr(profile, key)) for key in lists if getattr(profile, key)})
    if profile.models:
        plain["models"] = dict(profile.models)
    if profile.index is not None:
        plain["index"] = {"attribute": profile.index}
    if profile.bars:
        plain["bars"] = [{"index": bar.index, "min_size": bar.min_size} for bar in profile.bars]
    if profile.initialised is not None:
        plain["initialised"] = {"attribute": profile.initialised.attribute, "equals": profile.initialised.equals}
    if profile.handshake is not None:
        shake = profile.handshake
        plain["handshake"] = {
            "argv": list(shake.argv), "timeout": shake.timeout, "passes": shake.passes, "interval": shake.interval,
            "max_age": shake.max_age, **({"expect": shake.expect} if shake.expect is not None else {}),
        }
    plain["readiness"] = profile.readiness
    if profile.tools:
        plain["tools"] = {key: {"argv": list(tool.argv), "parse": tool.parse} for key, tool in profile.tools.items()}
    if profile.logs:
        plain["logs"] = [{"path": log.path, "kind": log.kind} for log in profile.logs]
    if profile.quiesce:
        plain["quiesce"] = [{"unit": unit.unit, "why": unit.why} for unit in profile.quiesce]
    if profile.any_driver:
        plain["any_driver"] = True
    return plain
