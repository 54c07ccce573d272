"""Conditions over facts and lines: yes with proof, no, or unknown with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hotplugctl.model import Driver, Kind, Link, LogLine, Probed, Rule, Trit, Unknown
from hotplugctl.readers.logs import read_log
from hotplugctl.rules.hearing import Sieve, fixed_texts, hear, must_hear
from hotplugctl.rules.judge import NO_LOG, Judgement, Subject, judge

DENIED = Unknown("needs root", Kind.DENIED)
YES, NO, UNKNOWN = Trit.YES, Trit.NO, Trit.UNKNOWN


def judged(when: Mapping[str, Any], log: str = "", *, logs: Unknown | None = None, **facts: Any) -> Judgement:
    rule = Rule(id="t.x", root_cause="none", title="t", when=when, cause="c")
    lines: tuple[LogLine, ...] = read_log(log, "log")
    return judge(rule, Subject(device=Probed(**facts), heard=hear([rule], lines), logs=logs))


WIDTH = {"fact": "link.width", "lt": {"fact": "link.limit_width"}}


@pytest.mark.parametrize(("claim", "when", "facts", "answer"), [
    ("a comparison that holds", WIDTH, {"link": Link(width=8, limit_width=16)}, YES),
    ("a comparison that does not", WIDTH, {"link": Link(width=16, limit_width=16)}, NO),
    ("an unknown side is unknown", WIDTH, {"link": Link(width=8, limit_width=DENIED)}, UNKNOWN),
    ("an unknown whole is unknown", WIDTH, {"link": DENIED}, UNKNOWN),
    ("comparing with what is not there is no", WIDTH, {"link": None}, NO),
    ("present", {"fact": "driver.name", "is": "present"}, {"driver": Driver(name="x")}, YES),
    ("absent", {"fact": "driver", "is": "absent"}, {"driver": None}, YES),
    ("absent is not unknown", {"fact": "driver", "is": "absent"}, {"driver": DENIED}, UNKNOWN),
    ("unknown can be asked for", {"fact": "driver", "is": "unknown"}, {"driver": DENIED}, YES),
    ("not of unknown stays unknown", {"not": {"fact": "model", "eq": "a"}}, {"model": DENIED}, UNKNOWN),
    ("in a list", {"fact": "model", "in": ["a", "b"]}, {"model": "b"}, YES),
    ("contains", {"fact": "missing", "contains": "node"}, {"missing": "its device node"}, YES),
    ("one no decides all", {"all": [{"fact": "model", "eq": "a"}, {"fact": "uuid", "eq": "u"}]},
     {"model": "b", "uuid": DENIED}, NO),
    ("one unknown makes all unknown", {"all": [{"fact": "model", "eq": "a"}, {"fact": "uuid", "eq": "u"}]},
     {"model": "a", "uuid": DENIED}, UNKNOWN),
    ("one yes decides any", {"any": [{"fact": "model", "eq": "a"}, {"fact": "uuid", "eq": "u"}]},
     {"model": "a", "uuid": DENIED}, YES),
    ("what cannot be compared is unknown", {"fact": "model", "lt": 3}, {"model": "a"}, UNKNOWN),
    ("a fact clears", {"fact": "model", "eq": "a", "unless": [{"fact": "uuid", "eq": "u"}]},
     {"model": "a", "uuid": "u"}, NO),
    ("an unknown excuse leaves it open", {"fact": "model", "eq": "a", "unless": [{"fact": "uuid", "eq": "u"}]},
     {"model": "a", "uuid": DENIED}, UNKNOWN),
])
def test_conditions_follow_kleene(claim: str, when: Mapping[str, Any], facts: Mapping[str, Any], answer: Trit) -> None:
    assert judged(when, **facts).answer is answer, claim


def test_a_yes_shows_its_facts_and_an_unknown_its_reason() -> None:
    assert judged(WIDTH, link=Link(width=8, limit_width=16)).facts == (("link.width", 8), ("link.limit_width", 16))
    assert "needs root" in judged(WIDTH, link=DENIED).because


BAR = {
    "log": r"BAR (?P<bar>\d): no space", "unless": [{"log": r"BAR (?P<bar>\d): assigned", "after": True}],
}


@pytest.mark.parametrize(("claim", "log", "answer"), [
    ("a line fires", "BAR 1: no space", YES),
    ("no line, no", "BAR 1: fine", NO),
    ("a later line about the same BAR clears it", "BAR 1: no space\nBAR 1: assigned", NO),
    ("one about another BAR does not", "BAR 1: no space\nBAR 2: assigned", YES),
    ("an earlier one does not", "BAR 1: assigned\nBAR 1: no space", YES),
    ("each line is cleared for itself", "BAR 1: no space\nBAR 2: no space\nBAR 1: assigned", YES),
])
def test_a_line_is_excused_by_the_line_that_takes_it_back(claim: str, log: str, answer: Trit) -> None:
    assert judged(BAR, log).answer is answer, claim


def test_an_excused_line_is_told_with_the_line_that_excused_it() -> None:
    judgement = judged(BAR, "BAR 1: no space\nBAR 1: assigned")
    assert [hit.line.text for hit in judgement.excused] == ["BAR 1: no space"]
    assert judgement.because == "BAR 1: assigned"


FLAP = {"log": "gone", "count": {"ge": 3}, "within": 60.0}


@pytest.mark.parametrize(("claim", "log", "answer"), [
    ("three within the time", "[1.0] gone\n[20.0] gone\n[50.0] gone", YES),
    ("three over a longer time", "[1.0] gone\n[100.0] gone\n[200.0] gone", NO),
    ("three near each other among others", "[1.0] gone\n[900.0] gone\n[910.0] gone\n[920.0] gone", YES),
    ("two are not three", "[1.0] gone\n[2.0] gone", NO),
    ("without times it cannot be told", "gone\ngone\ngone", UNKNOWN),
    ("ISO times do as well", "2026-03-02T08:10:01+0000 n kernel: gone\n2026-03-02T08:10:11+0000 n kernel: gone\n"
     "2026-03-02T08:10:21+0000 n kernel: gone", YES),
])
def test_count_and_within(claim: str, log: str, answer: Trit) -> None:
    assert judged(FLAP, log).answer is answer, claim


def test_an_excuse_reaches_as_far_as_its_within() -> None:
    when = {"log": "gone", "unless": [{"log": "asked", "within": 60.0}]}
    assert judged(when, "[1.0] asked\n[30.0] gone").answer is NO
    assert judged(when, "[1.0] asked\n[3000.0] gone").answer is YES
    assert judged(when, "asked\n[3000.0] gone").answer is NO, "without a common clock the excuse holds"


BEFORE = {"log": "gone", "unless": [{"log": "let go", "before": True, "unless": [{"log": "back"}]}]}


@pytest.mark.parametrize(("claim", "log", "answer"), [
    ("let go first", "let go\ngone", NO),
    ("let go afterwards", "gone\nlet go", YES),
    ("come back in between", "let go\nback\ngone", YES),
    ("come back later", "let go\ngone\nback", NO),
])
def test_an_earlier_line_excuses_until_it_is_void(claim: str, log: str, answer: Trit) -> None:
    assert judged(BEFORE, log).answer is answer, claim


def test_silence_of_a_log_that_nobody_read_proves_nothing() -> None:
    assert judged({"log": "x"}, logs=NO_LOG).answer is UNKNOWN
    assert judged({"not": {"log": "x"}}, logs=NO_LOG).answer is UNKNOWN


def test_what_holds_by_facts_alone_is_cleared_by_a_line() -> None:
    when = {"fact": "driver", "is": "absent", "unless": [{"log": "probe failed"}]}
    assert judged(when, "probe failed", driver=None).answer is NO
    assert judged(when, "other", driver=None).answer is YES
    assert judged(when, logs=NO_LOG, driver=None).answer is YES, "a log nobody read excuses nothing"


@pytest.mark.parametrize(("pattern", "texts"), [
    (r"BAR (?P<bar>[0-5]): (?:no space for|failed to assign) \[mem", {"no space for", "failed to assign"}),
    (r"[Ss]lot\([^)]*\): Power fault|power bit", {"): power fault", "power bit"}),
    (r"colou?r", {"colo"}),
    (r"x{10,20}yes", {"yes"}),
    (r"(?i)Unknown Error", {"unknown error"}),
    (r"(?:a|b)?\d+", {""}),
    (r"(?!not)this", {"this"}),
    (r"(maybe)?", {""}),
])
def test_fixed_texts_are_in_every_match(pattern: str, texts: set[str]) -> None:
    assert set(fixed_texts(pattern)) == texts


@pytest.mark.parametrize(("when", "patterns"), [
    ({"log": "a"}, {"a"}),
    ({"all": [{"fact": "x", "is": "present"}, {"log": "a"}]}, {"a"}),
    ({"any": [{"log": "a"}, {"log": "b"}]}, {"a", "b"}),
    ({"any": [{"log": "a"}, {"fact": "x", "is": "present"}]}, None),
    ({"not": {"log": "a"}}, None),
])
def test_a_rule_that_hears_nothing_it_must_hear_is_not_judged(
    when: Mapping[str, Any], patterns: set[str] | None
) -> None:
    assert must_hear(when) == patterns


def test_the_sieve_finds_just_the_texts_that_stand_in_a_line() -> None:
    texts = ["slot(", "slot(3): card", "xid", "a", "power fault", "power fau", "fault on", "", "lt o"]
    sieve = Sieve({text: [text] for text in texts})
    for line in ("pciehp: slot(3): card present", "power fault on slot", "xi", "xid", "", "a", "power fau", "lt o"):
        assert sieve.candidates(line) == {text for text in texts if text in line}, line
