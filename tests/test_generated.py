"""Nothing that is generated has drifted, and what it says is true of the program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import typer

from hotplugctl import cli, config
from hotplugctl.errors import Exit
from hotplugctl.model import LADDER, Change, ChangeKind, Plan, Profile
from hotplugctl.rules import facts, forms, load

from .generate import everything, man_config, man_events, man_rules, schemas
from .generate.commands import VERBS, verb, verbs
from .generate.prose import VERB_PROSE

ROOT = everything.ROOT
PAGES = sorted((ROOT / "man").glob("*.[1-9]"))
COMPLETIONS = ("hotplugctl.bash", "_hotplugctl", "hotplugctl.fish")
DATA = ROOT / "hotplugctl" / "data"
# The contract's words, copied by hand.
CHANGE = (
    "id time monotonic kind address slot device before after expected sure missing because timings budget batch "
    "replaces lost diagnosis deadline_s devices standing labels"
)
KINDS = (
    "snapshot added progress ready late failed degraded recovered draining drained removed surprise_removed replaced "
    "flapping error resync"
)
PLAN = "device devices group steps blockers warnings holders done state safe_to_pull"


@pytest.mark.parametrize("path", everything.made())
def test_a_generated_file_is_as_it_would_be_made_now(path: str) -> None:
    assert everything.drift((path,)) == []


def test_generated_folders_hold_nothing_else() -> None:
    assert everything.strays() == []


def test_profiles_are_the_same_from_yaml_and_from_json() -> None:
    authored = load.load_profiles(sorted((DATA / "vendors").glob("*.yaml")))
    shipped = [forms.profile_from(plain) for plain in json.loads((DATA / "vendors.json").read_text())]
    assert list(authored) == shipped


def test_rules_are_the_same_from_yaml_and_from_json() -> None:
    authored = load.load_rules(DATA / "rules" / f"{layer}.yaml" for layer in load.LAYERS)
    shipped = [forms.rule_from(plain) for plain in json.loads((DATA / "rules.json").read_text())["rules"]]
    assert [replace(rule, examples={}) for rule in authored] == shipped


def test_the_taxonomy_is_the_same_from_yaml_and_from_json() -> None:
    assert load.load_taxonomy(DATA / "taxonomy.yaml") == json.loads((DATA / "taxonomy.json").read_text())


def source(page: str) -> str:
    """A page's text without the escapes of roff."""
    text = (ROOT / "man" / page).read_text()
    return re.sub(r"\\f[BIR]", "", text).replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\ ", " ")


def has(text: str, option: str) -> bool:
    return re.search(rf"(?<![\w-]){option}(?![\w-])", text) is not None


@pytest.mark.parametrize("name", VERBS)
def test_every_option_of_a_verb_is_in_its_man_page(name: str) -> None:
    page = source(f"hotplugctl-{name}.1")
    for option in verb(name).options:
        for spelling in option.names:
            assert has(page, spelling), f"{spelling} is not in the page"


@pytest.mark.parametrize("name", COMPLETIONS)
def test_every_option_is_in_each_completion(name: str) -> None:
    text = (ROOT / "completions" / name).read_text()
    for option in (option for one in verbs() for option in one.options):
        for spelling in option.names:
            fish = f"-l {spelling[2:]}" if spelling.startswith("--") else f"-s {spelling[1:]}"
            assert has(text, fish if name.endswith("fish") else spelling), f"{spelling} is not in {name}"


def test_an_option_that_nobody_has_decided_about_is_refused() -> None:
    from .generate import commands

    with pytest.raises(ValueError, match="what does --speed GTS take"):
        commands._takes("--speed", "GTS")


@pytest.mark.parametrize("name", VERBS)
def test_every_exit_code_is_in_each_verbs_page(name: str) -> None:
    page = source(f"hotplugctl-{name}.1")
    for code in Exit:
        assert f"{int(code)} ({code.name.lower()})\n{code.meaning}." in page


@pytest.mark.parametrize(("name", "command"), [(name, e[1]) for name in VERBS for e in VERB_PROSE[name].examples])
def test_every_example_of_a_page_is_a_command_line(name: str, command: str) -> None:
    words = shlex.split(command)[1:] or [name]
    group: Any = typer.main.get_command(cli.app)
    assert words[0] == name
    group.commands[name].make_context(name, words[1:])


def test_the_ladder_of_the_page_is_the_models() -> None:
    rungs = re.findall(r"^(\w+) +\S.*\n {4}\|\n|^(\w+) +an independent health", source("hotplugctl.1"), re.M)
    assert [one or other for one, other in rungs] == [rung.value for rung in LADDER]


def test_every_fact_is_in_the_page_on_rules() -> None:
    page = source("hotplugctl-rules.5")
    for name in facts.names():
        assert re.search(rf"^{re.escape(name)} +\w", page, re.M), f"{name} is not in the page"


def test_the_rules_in_the_page_are_rules(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(man_rules.EXAMPLE_RULES)
    assert len(load.load_rules([tmp_path / "site.yaml"])) == 2


def test_the_profile_in_the_page_has_every_key_and_is_one(tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(man_rules.EXAMPLE_PROFILE)
    [found] = load.load_profiles([tmp_path / "example.yaml"])
    assert found.id == "example"
    written = set(re.findall(r"^(\w+):", man_rules.EXAMPLE_PROFILE, re.M))
    assert written == {"schema", *(field.name for field in fields(Profile))}


def test_the_configuration_in_the_page_is_one(root_owned: Path) -> None:
    (root_owned / "config.yaml").write_text(man_config.EXAMPLE)
    found = config.settings(str(root_owned / "config.yaml"))
    assert {*found.sources} >= {name for name in man_config.SETTINGS if name != "readiness"}


def test_every_setting_is_in_the_page() -> None:
    assert {*man_config.SETTINGS, "sources"} == {field.name for field in fields(config.Settings)}


def test_changes_and_plans_have_the_words_of_the_contract() -> None:
    assert {field.name for field in fields(Change)} == set(CHANGE.split())
    assert {field.name for field in fields(Plan)} >= set(PLAN.split())
    assert [kind.value for kind in ChangeKind] == KINDS.split()
    assert set(man_events.KINDS) == set(ChangeKind)


def test_words_of_schemas_are_of_fields_that_exist() -> None:
    known = {
        (part, field) for name in schemas.DOCUMENTS for part, found in json.loads(schemas.text(name))["$defs"].items()
        for field in found["properties"]
    }
    assert set(schemas.WORDS) <= known


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_is_clean_and_fits_80_columns(page: Path) -> None:
    shown = subprocess.run(
        ["man", "--warnings", "-l", str(page)], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""},
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "NAME" in shown.stdout
    assert [line for line in shown.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_groff_has_no_complaint_about_a_page(page: Path) -> None:
    done = subprocess.run(["groff", "-man", "-ww", "-z", str(page)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
