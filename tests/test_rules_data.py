"""Every shipped rule shows itself firing and staying quiet, and says what a person needs."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hotplugctl.diagnose.counts import surroundings_of
from hotplugctl.diagnose.instances import settle
from hotplugctl.model import (
    NOT_ASKED,
    Bar,
    Driver,
    Link,
    Machine,
    Match,
    Node,
    Port,
    Power,
    Probed,
    Profile,
    Rule,
    Slot,
    SlotControl,
    State,
    Trit,
)
from hotplugctl.model.device import Dpc
from hotplugctl.readers.logs import read_log
from hotplugctl.rules import load
from hotplugctl.rules.hearing import hear
from hotplugctl.rules.judge import Subject, judge

RULES = load.load_rules(load.rule_files())
PROFILES = {profile.id: profile for profile in load.profiles()}
NESTED: Mapping[str, Any] = {"driver": Driver, "link": Link, "power": Power, "dpc": Dpc}


def of_example(example: Mapping[str, Any], rule: Rule) -> Subject:
    """The subject an example describes: facts by name, `log` as lines about it, all else unknown."""
    lines = settle(read_log("\n".join(example.get("log", ())), "example"))
    own = {field.name for field in dataclasses.fields(Probed)}
    facts = {}
    for key, value in example.items():
        name = "class_" if key == "class" else key
        if name not in own or key in ("profile", "slot"):
            continue
        facts[name] = (
            NESTED[key](**value) if isinstance(value, dict)
            else tuple(Bar(**bar) for bar in value) if key == "bars"
            else tuple(Node(**node) for node in value) if key == "nodes"
            else tuple(value) if isinstance(value, list)
            else State(value) if key in ("state", "rung") else value
        )
    port = dict(example.get("port", {}))
    for key, kind in (("slot", SlotControl), ("dpc", Dpc), ("power", Power)):
        if key in port:
            port[key] = kind(**port[key])
    return Subject(
        address=example.get("address"), device=Probed(**facts), port=Port(**port) if port else None,
        slot=Slot(**example["slot"]) if isinstance(example.get("slot"), dict) else None,
        profile=profile_of(example), named=example.get("named", False), bridge=example.get("bridge", False),
        enumerated=example.get("address") is not None, heard=hear([rule], lines),
        surroundings=surroundings_of(Machine(host=""), lines),
    )


def profile_of(example: Mapping[str, Any]) -> Profile | None:
    if "profile_id" in example:
        return PROFILES[example["profile_id"]]
    if "profile" in example:
        own = {key: tuple(value) for key, value in example["profile"].items()}
        return Profile(id="example", name="Example", match=Match(), **own)
    return None


def examples(kind: str) -> Iterator[Any]:
    for rule in RULES:
        shown = rule.examples[kind]
        for i, example in enumerate(shown if isinstance(shown, list) else [shown]):
            yield pytest.param(rule, example, id=f"{rule.id}-{i}")


@pytest.mark.parametrize(("rule", "example"), list(examples("fires")))
def test_a_rule_fires_on_its_example(rule: Rule, example: Mapping[str, Any]) -> None:
    judgement = judge(rule, of_example(example, rule))
    assert judgement.answer is Trit.YES
    assert judgement.facts or judgement.hits, "a finding needs proof"


@pytest.mark.parametrize(("rule", "example"), list(examples("quiet")))
def test_a_rule_stays_quiet_on_its_counter_example(rule: Rule, example: Mapping[str, Any]) -> None:
    assert judge(rule, of_example(example, rule)).answer is not Trit.YES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_knows_nothing_of_a_machine_that_nobody_looked_at(rule: Rule) -> None:
    """No captured facts and an empty log: a rule may say no or unknown, never yes."""
    assert judge(rule, Subject(device=Probed())).answer is not Trit.YES
    assert judge(rule, Subject()).answer is not Trit.YES


def test_every_root_cause_has_a_rule() -> None:
    concluded = {rule.root_cause for rule in RULES}
    assert set(load.taxonomy()) - concluded == set()


def test_a_rule_is_filed_under_the_layer_of_its_root_cause() -> None:
    taxonomy = load.taxonomy()
    misfiled = [
        rule.id for rule in RULES
        if rule.root_cause != "none" and rule.where != f"{taxonomy[rule.root_cause].layer.value}.yaml"
    ]
    assert misfiled == []


def test_a_cause_never_explains_itself() -> None:
    assert [rule.id for rule in RULES if rule.root_cause in rule.explains] == []


def test_facts_not_asked_for_are_unknown_in_an_example() -> None:
    assert typing.cast("Any", Probed().driver) == NOT_ASKED
