"""Rules and profiles as authored: typed by our schema, every error at once with its line, JSON and YAML the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.rules import load

RULE = """\
schema: hotplugctl.rules/1
rules:
  - id: hw.x
    root_cause: link_downtrained
    title: narrow
    when: {fact: link.width, lt: {fact: link.limit_width}}
    cause: a lane
    examples: {fires: {link: {width: 8, limit_width: 16}}, quiet: {link: {width: 16, limit_width: 16}}}
"""
PROFILE = """\
schema: hotplugctl.profile/1
id: lab
name: Lab accelerator
match: {vendor: "1234", device: ["11e8"]}
drivers: [labaccel]
handshake: {argv: [lab, -i, "{index}"], timeout: 500ms, passes: 2, interval: 1s, max_age: 5m}
bars: [{index: 0, min_size: 64M}]
"""


def file(folder: Path, text: str, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def errors_of(folder: Path, text: str) -> str:
    with pytest.raises(HotplugError) as caught:
        load.load_rules([file(folder, text)])
    assert caught.value.exit is Exit.USAGE
    return caught.value.why


def test_a_well_formed_rule_is_read(tmp_path: Path) -> None:
    (rule,) = load.load_rules([file(tmp_path, RULE)])
    assert (rule.id, rule.root_cause, rule.confidence, rule.where) == ("hw.x", "link_downtrained", "likely", "own.yaml")


@pytest.mark.parametrize(("claim", "before", "after", "error"), [
    ("an unknown fact is named with its neighbour", "fact: link.width,", "fact: link.widht,",
     ":6: rule hw.x: no fact named link.widht (link.width?)"),
    ("an unknown root cause is named with its neighbour", "link_downtrained", "link_downtraind",
     ":4: rule hw.x: no root cause named link_downtraind (link_downtrained?)"),
    ("an unknown key is named with its neighbour", "cause: a", "cuase: a",
     ":7: rule hw.x: no key named cuase (cause?)"),
    ("a key twice is an error", "title: narrow", "title: narrow\n    title: wide", "title is there twice"),
    ("a missing key is an error", "    cause: a lane\n", "", "cause is missing"),
    ("a value has the type of its fact", "lt: {fact: link.limit_width}", "lt: wide", "expected a number, not 'wide'"),
    ("a pattern must compile", "{fact: link.width, lt: {fact: link.limit_width}}", "{log: '('}",
     "not a regular expression"),
    ("a condition has one head", "{fact: link.width, lt:", "{log: x, fact: link.width, lt:", "exactly one of"),
    ("a comparison needs an operator", "{fact: link.width, lt: {fact: link.limit_width}}", "{fact: link.width}",
     "needs exactly one of is"),
    ("a within must be a duration", "{fact: link.width, lt: {fact: link.limit_width}}",
     "{log: x, count: {ge: 2}, within: 60}", "expected a duration such as 500ms, 5s or 5m, not '60'"),
    ("another schema is refused", "hotplugctl.rules/1", "hotplugctl.rules/2", "is none of hotplugctl.rules/1"),
])
def test_an_error_says_where_and_what(tmp_path: Path, claim: str, before: str, after: str, error: str) -> None:
    assert before in RULE
    assert error in errors_of(tmp_path, RULE.replace(before, after)), claim


def test_all_errors_of_all_files_come_at_once(tmp_path: Path) -> None:
    one = file(tmp_path, RULE.replace("link.width,", "link.widht,").replace("cause: a", "cuase: a"), "one.yaml")
    two = file(tmp_path, RULE.replace("hw.x", "hw.y").replace("downtrained", "down"), "two.yaml")
    with pytest.raises(HotplugError) as caught:
        load.load_rules([one, two, tmp_path / "none.yaml"])
    why = caught.value.why
    assert "one.yaml:6" in why
    assert "one.yaml:7" in why
    assert "two.yaml:4" in why
    assert "none.yaml: cannot be read" in why


def test_an_id_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HotplugError, match="rules") as caught:
        load.load_rules([file(tmp_path, RULE, "one.yaml"), file(tmp_path, RULE, "two.yaml")])
    assert "rule hw.x: is already in one.yaml" in caught.value.why


@pytest.mark.parametrize("text", [
    "", "rules: [", "- a\n- b\n", "schema: hotplugctl.rules/1\nrules: 3\n", "\0", "a: &a [*a]",
    "schema: hotplugctl.rules/1\nrules: [a, [b]]\n",
    RULE.replace("{fact: link.width, lt: {fact: link.limit_width}}", "&w {all: [*w]}"),
])
def test_a_file_that_is_no_rule_file_is_an_error_with_its_name(tmp_path: Path, text: str) -> None:
    assert "own.yaml" in errors_of(tmp_path, text)


def test_the_yaml_traps_are_closed(tmp_path: Path) -> None:
    """YAML 1.1 would make a float of an unquoted address and False of `no`."""
    text = RULE.replace("{fact: link.width, lt: {fact: link.limit_width}}", "{fact: power.runtime, eq: no}")
    (rule,) = load.load_rules([file(tmp_path, text)])
    assert rule.when["eq"] == "no"
    text = RULE.replace("{fact: link.width, lt: {fact: link.limit_width}}", "{fact: address, eq: 0000:17:00.0}")
    assert load.load_rules([file(tmp_path, text)])[0].when["eq"] == "0000:17:00.0"


def test_a_profile_is_read_with_seconds_and_bytes(tmp_path: Path) -> None:
    (profile,) = load.load_profiles([file(tmp_path, PROFILE)])
    assert profile.handshake is not None
    assert (profile.handshake.timeout, profile.handshake.max_age, profile.handshake.passes) == (0.5, 300.0, 2)
    assert profile.bars[0].min_size == 64 << 20
    assert profile.match.covers("1234", "11e8", "00ff00")


@pytest.mark.parametrize("profile", load.profiles(), ids=lambda profile: profile.id)
def test_a_profile_travels_in_a_bundle_unchanged(profile: load.Profile) -> None:
    assert load.profile_from(json.loads(json.dumps(load.profile_to(profile)))) == profile


def test_an_own_profile_takes_the_place_of_a_shipped_one_with_its_id(tmp_path: Path) -> None:
    own = load.profiles([file(tmp_path, PROFILE.replace("id: lab", "id: nvidia"))])
    assert [profile.name for profile in own if profile.id == "nvidia"] == ["Lab accelerator"]
    assert len(own) == len(load.profiles())


def test_the_profile_that_takes_any_driver_comes_last() -> None:
    assert [profile.any_driver for profile in load.profiles()].index(True) == len(load.profiles()) - 1


def test_an_own_rule_takes_the_place_of_a_shipped_one_with_its_id(tmp_path: Path) -> None:
    own = load.rules([file(tmp_path, RULE.replace("hw.x", "hw.link-narrow"))])
    assert [rule.title for rule in own if rule.id == "hw.link-narrow"] == ["narrow"]


SEVERAL = """\
    examples:
      fires:
        - {link: {width: 8, limit_width: 16}}
        - {link: {width: 16, limit_width: 16}}
      quiet: {link: {width: 16, limit_width: 16}}
"""


@pytest.mark.parametrize(("claim", "examples", "error"), [
    ("a quiet example that fires", "    examples: {fires: {link: {width: 8, limit_width: 16}}, "
     "quiet: {link: {width: 4, limit_width: 16}}}\n", ":8: rule hw.x: its quiet example fires"),
    ("one of several that stays quiet has its own line", SEVERAL, ":11: rule hw.x: its fires example does not fire"),
    ("an example that is no fact", "    examples: {fires: {link: {wdith: 8}}, quiet: {}}\n",
     ":8: rule hw.x: its fires example cannot be read"),
    ("an example that is no mapping", "    examples: {fires: 3, quiet: {}}\n",
     ":8: rule hw.x: its fires example cannot be read"),
])
def test_an_own_rule_whose_examples_come_out_otherwise_is_an_error(
    tmp_path: Path, claim: str, examples: str, error: str
) -> None:
    start = RULE.index("    examples:")
    with pytest.raises(HotplugError) as caught:
        load.rules([file(tmp_path, RULE[:start] + examples)])
    assert caught.value.exit is Exit.USAGE
    assert f"own.yaml{error}" in caught.value.why, claim


def test_an_own_rule_whose_examples_come_out_as_they_say_is_taken(tmp_path: Path) -> None:
    assert load.rules([file(tmp_path, RULE)])[-1].id == "hw.x"


def test_the_compiled_rules_are_the_authored_ones_without_their_examples() -> None:
    compiled = {plain["id"]: plain for plain in json.loads(load.compile_rules())["rules"]}
    authored = load.load_rules(load.rule_files())
    assert set(compiled) == {rule.id for rule in authored}
    for rule in authored:
        assert compiled[rule.id]["when"] == rule.when
        assert "examples" not in compiled[rule.id]
    assert json.loads(load.compile_taxonomy()).keys() == load.taxonomy().keys()
    assert len(json.loads(load.compile_profiles())) == len(load.profiles())
