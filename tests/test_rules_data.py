"""Every shipped rule shows itself firing and staying quiet, and says what a person needs."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hotplugctl.model import NOT_ASKED, Probed, Rule, Trit
from hotplugctl.rules import load
from hotplugctl.rules.examples import several, subject_of
from hotplugctl.rules.judge import Subject, judge

RULES = load.load_rules(load.rule_files())
PROFILES = load.profiles()


def examples(kind: str) -> Iterator[Any]:
    for rule in RULES:
        for i, example in enumerate(several(rule.examples[kind])):
            yield pytest.param(rule, example, id=f"{rule.id}-{i}")


@pytest.mark.parametrize(("rule", "example"), list(examples("fires")))
def test_a_rule_fires_on_its_example(rule: Rule, example: Mapping[str, Any]) -> None:
    judgement = judge(rule, subject_of(example, rule, PROFILES))
    assert judgement.answer is Trit.YES
    assert judgement.facts or judgement.hits, "a finding needs proof"


@pytest.mark.parametrize(("rule", "example"), list(examples("quiet")))
def test_a_rule_stays_quiet_on_its_counter_example(rule: Rule, example: Mapping[str, Any]) -> None:
    assert judge(rule, subject_of(example, rule, PROFILES)).answer is not Trit.YES


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
