"""Real documents of real commands are as the shipped JSON Schemas say, and the schemas refuse what is not."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import hotplugctl
from hotplugctl.__main__ import run
from hotplugctl.errors import Exit
from hotplugctl.model import (
    Blocker,
    Budget,
    Change,
    ChangeKind,
    Device,
    Plan,
    PlanDevice,
    SafeToPull,
    State,
    Step,
)
from hotplugctl.output import documents

from .machine import MachineTree

DATA = Path(hotplugctl.__file__).parent / "data"
NAMES = ("device", "devices", "slots", "slot", "change", "plan", "diagnosis", "error")
DMESG = """\
[    1.000000] pci 0000:17:00.0: BAR 0 [mem size 0x1000000000 64bit pref]: can't assign; no space
[    1.000100] pci 0000:17:00.0: BAR 0 [mem size 0x1000000000 64bit pref]: failed to assign
"""
LSPCI = """\
17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tControl: I/O- Mem- BusMaster-
\tRegion 0: Memory at <unassigned> (64-bit, prefetchable) [disabled]
"""


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((DATA / "schemas" / f"{name}.schema.json").read_text()))


def check(document: Any) -> Any:
    """The document, if the schema that it names takes it."""
    name = document["schema"].removeprefix("hotplugctl.").removesuffix("/1")
    problems = [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(document)]
    assert problems == []
    return document


Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs one command line here: its exit code and what it printed."""
    for variable in [name for name in os.environ if name.startswith("HOTPLUGCTL_")]:
        monkeypatch.delenv(variable)

    def said(*words: str) -> tuple[int, str]:
        code = run(words)
        return code, capsys.readouterr().out

    return said


@pytest.fixture
def root(machine: MachineTree) -> str:
    """A card that stands well, one that is dead, one without addresses, one that only its slot sees, an empty slot."""
    machine.port()
    machine.card(serial=0x525400FFFF123456)
    machine.card("0000:01:00.1", serial=0x525400FFFF123456)
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.port("0000:00:03.0", slot="3", bus=3)
    machine.card(
        "0000:03:00.0", under="0000:00:03.0", vendor="10de", device="2330", class_="030200", driver=None, dead=True)
    machine.port("0000:00:04.0", slot="4", bus=4)
    machine.card("0000:04:00.0", under="0000:00:04.0", vendor="19e5", device="d802", driver=None, lost_bar=True)
    machine.port("0000:00:05.0", slot="5", bus=5)
    machine.function("0000:00:1f.6", "8086", "15fb", "020000")
    machine.kmsg("pci 0000:04:00.0: BAR 0 [mem size 0x1000000 64bit pref]: can't assign; no space")
    return str(machine.root)


DOCUMENTS = {
    "list": ("devices", Exit.OK),
    "list --wide --all-pci": ("devices", Exit.OK),
    "list --state ready": ("devices", Exit.OK),
    "list --slots": ("slots", Exit.OK),
    "probe 0000:01:00.0": ("device", Exit.OK),
    "probe 0000:03:00.0": ("device", Exit.OK),
    "probe slot:1": ("device", Exit.OK),
    "probe slot:2": ("device", Exit.OK),
    "probe slot:5 --fits 64M,512G": ("device", Exit.OK),
    "diagnose": ("diagnosis", Exit.FAULT),
    "diagnose slot:4": ("diagnosis", Exit.FAULT),
    "list 0000:99:00.0": ("error", Exit.UNKNOWN),
    "probe 0000:01:0x.0": ("error", Exit.UNKNOWN),
    "list --state broken": ("error", Exit.USAGE),
    "list --no-such-option": ("error", Exit.USAGE),
    "diagnose --fail-on everything": ("error", Exit.USAGE),
}


@pytest.mark.parametrize("line", DOCUMENTS)
def test_a_document_is_as_its_schema_says(command: Command, root: str, line: str) -> None:
    name, code = DOCUMENTS[line]
    given, out = command(*line.split(), "--root", root, "-o", "json")
    assert check(json.loads(out))["schema"] == f"hotplugctl.{name}/1"
    assert given == code


@pytest.mark.parametrize("line", [line for line in DOCUMENTS if DOCUMENTS[line][0] != "error"])
def test_each_line_is_as_its_schema_says(command: Command, root: str, line: str) -> None:
    _, out = command(*line.split(), "--root", root, "-o", "jsonl")
    of = {"devices": "device", "slots": "slot"}.get(DOCUMENTS[line][0], DOCUMENTS[line][0])
    for row in out.splitlines():
        assert check(json.loads(row))["schema"] == f"hotplugctl.{of}/1"


def test_a_slot_with_several_devices_is_an_array(command: Command, root: str) -> None:
    _, out = command("probe", "slot:1", "--root", root, "-o", "json")
    assert [device["address"] for device in check(json.loads(out))["data"]] == ["0000:01:00.0", "0000:01:00.1"]


def test_a_diagnosis_of_files_is_as_its_schema_says(command: Command, tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(DMESG)
    (tmp_path / "lspci.txt").write_text(LSPCI)
    (tmp_path / "empty.txt").touch()
    files = [word for name in ("dmesg", "lspci", "empty") for word in ("--from", str(tmp_path / f"{name}.txt"))]
    code, out = command("diagnose", *files, "-o", "json")
    found = check(json.loads(out))
    assert (code, found["data"]["root_cause"]["id"]) == (Exit.FAULT, "bar_space_exhausted")
    assert [error["what"] for error in found["errors"]] == [str(tmp_path / "empty.txt")]


def test_a_comparison_with_what_was_expected_is_still_a_list(command: Command, root: str, tmp_path: Path) -> None:
    expected = str(tmp_path / "machine.json")
    command("list", "--root", root, "--save-expect", expected)
    code, out = command("list", "0000:01:00.0", "--root", root, "--expect", expected, "-o", "json")
    assert check(json.loads(out))["differences"]
    assert code == Exit.FAULT


@pytest.mark.skipif(not (DATA / "demo.tar.gz").exists(), reason="no captured machine ships yet")
@pytest.mark.parametrize("words", [("list",), ("list", "--slots"), ("diagnose",)])
def test_documents_of_the_demo_are_as_their_schemas_say(command: Command, words: tuple[str, ...]) -> None:
    check(json.loads(command(*words, "--root", "demo", "-o", "json")[1]))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(validator(name).schema)
    assert validator(name).schema["title"] == f"hotplugctl.{name}/1"  # type: ignore[index]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(path, key) of every key in a document."""
    if isinstance(value, dict):
        for key in value:
            yield path, key
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for n, item in enumerate(value[:1]):
            yield from places(item, (*path, n))


# Keys that are data, not words of the document: anything may be there, so nothing can be missing.
FREE = {"fields", "labels", "runtime", "sources", "fits"}


@pytest.mark.parametrize("line", ["list", "list --slots", "probe 0000:01:00.0", "diagnose", "list 0000:99:00.0"])
def test_a_document_that_lacks_or_misspells_a_key_is_refused(command: Command, root: str, line: str) -> None:
    _, out = command(*line.split(), "--root", root, "-o", "json")
    whole = check(json.loads(out))
    schema = validator(whole["schema"].removeprefix("hotplugctl.").removesuffix("/1"))
    tried = 0
    for path, key in places(whole):
        if FREE & {str(step) for step in path}:
            continue
        broken = copy.deepcopy(whole)
        part = broken
        for step in path:
            part = part[step]
        part[f"{key}x"] = part.pop(key)
        assert not schema.is_valid(broken), f"{'.'.join(map(str, path))} without {key} is taken"
        tried += 1
    assert tried > 5


def test_could_not_look_is_taken_where_there_are_three_answers_only(command: Command, root: str) -> None:
    _, out = command("list", "0000:01:00.0", "--root", root, "-o", "json")
    found = json.loads(out)
    found["data"][0]["serial"] = {"unknown": "permission denied", "kind": "denied"}
    check(found)
    found["data"][0]["serial"] = {"unknown": "permission denied", "kind": "forbidden"}
    assert not validator("devices").is_valid(found)
    found["data"][0]["serial"] = None
    check(found)
    found["data"][0]["state"] = None
    assert not validator("devices").is_valid(found)


def test_a_later_version_may_say_more(command: Command, root: str) -> None:
    found = json.loads(command("list", "--root", root, "-o", "json")[1])
    found["more"] = found["data"][0]["more"] = found["data"][0]["link"]["more"] = 1
    check(found)


def test_a_change_is_taken_and_one_that_lacks_a_key_is_not() -> None:
    made = Change(
        id="1-7", time="2026-11-29T16:24:08.123Z", monotonic=12.5, kind=ChangeKind.READY, address="0000:3b:00.0",
        slot="3", device=Device(), before=State.INITIALISED, after=State.READY, timings={"bound": 0.2},
        budget=Budget(3.0, 1.5, True), because=("its health check passed",),
    )
    change = json.loads(documents.lines("change", [made]))
    check(change)
    for key in change:
        assert not validator("change").is_valid({name: change[name] for name in change if name != key})


def test_a_plan_is_taken_and_one_that_lacks_a_key_is_not() -> None:
    device = Device(address="0000:3b:00.0", slot="3", state=State.READY)
    data = documents.plain(Plan(
        device=device,
        devices=(PlanDevice("0000:3b:00.0", "3", State.READY, SafeToPull(False, "the work is still on it")),),
        steps=(Step("unbind", "0000:3b:00.0", "asked for", "bind it again"),),
        blockers=(Blocker("pid 4711 holds it", "it would die", "--stop-holders"),),
    ))
    plan = {
        "schema": "hotplugctl.plan/1", "tool": "hotplugctl 0.1.0", "host": "h", "taken_at": "2026-11-29T16:24:08.123Z",
        "errors": [], "data": data,
    }
    check(plan)
    for key in data:
        broken = {**plan, "data": {name: data[name] for name in data if name != key}}
        assert not validator("plan").is_valid(broken), key
