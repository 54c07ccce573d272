"""The command line as scripts and people meet it: what it prints where, exit codes, and bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.errors import Exit

from .machine import MachineTree


@dataclass
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The document's data."""
        return json.loads(self.out)["data"]


# What root may not do without CAP_DAC_OVERRIDE is what anybody may not do; another user could not reach this Python.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def hotplugctl(*words: str, env: dict[str, str] | None = None, within: tuple[str, ...] = ()) -> Result:
    """Run the real command in a process of its own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HOTPLUGCTL_", "NO_COLOR", "FORCE_COLOR"))}
    done = subprocess.run(
        [*within, sys.executable, "-m", "hotplugctl", *words], capture_output=True, text=True, timeout=60,
        env=clean | (env or {}), cwd="/",
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def root(machine: MachineTree) -> str:
    """A machine with a card that has its node, an empty slot, and one whose driver failed."""
    machine.port()
    machine.card(serial=0x525400FFFF123456)
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.port("0000:00:03.0", slot="3", bus=3)
    machine.card("0000:03:00.0", under="0000:00:03.0", vendor="10de", device="2330", class_="030200", driver=None)
    machine.kmsg("nvidia 0000:03:00.0: probe with driver nvidia failed with error -110")
    return str(machine.root)


def test_a_rule_is_explained_on_this_machine_and_a_cause_where_evidence_is_named(root: str, tmp_path: Path) -> None:
    log = tmp_path / "dmesg.txt"
    log.write_text("[ 9.000000] nvidia 0000:03:00.0: probe with driver nvidia failed with error -110\n")
    for evidence in (("--root", root), ("--from", str(log))):
        told = hotplugctl("diagnose", *evidence, "--explain", "device_boot_timeout", "-o", "json").data
        assert [trial["address"] for trial in told["trials"] if trial["answer"] == "yes"] == ["0000:03:00.0"]
    assert hotplugctl("diagnose", "--explain", "device_boot_timeout", "-o", "json").data["trials"] is None
    assert hotplugctl("diagnose", "--explain", told["rules"][0]["id"], "-o", "json").data["trials"] == []


def test_a_device_that_the_evidence_does_not_speak_of_is_said_to_be_missing(tmp_path: Path) -> None:
    log = tmp_path / "dmesg.txt"
    log.write_text("[ 9.000000] nvidia 0000:03:00.0: probe with driver nvidia failed with error -110\n")
    result = hotplugctl("diagnose", "--from", str(log), "0000:99:00.0")
    assert (result.code, result.out) == (Exit.UNKNOWN, "")
    assert "0000:99:00.0 is not in the evidence: it speaks of 0000:03:00.0" in result.err
    assert hotplugctl("diagnose", "--from", str(log), "0000:03:00.0").code == Exit.FAULT


@pytest.mark.parametrize(("start", "says"), [(b"PK\x03\x04", "a zip archive: unpack it"), (b"\x7fELF", "a program")])
def test_what_is_no_text_is_named_and_not_read(tmp_path: Path, start: bytes, says: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(start + b"fail error fail\n" * 40)
    result = hotplugctl("diagnose", "--from", str(other))
    assert result.code == Exit.UNKNOWN
    assert says in result.err


def test_since_counts_back_from_the_newest_line_of_each_log(tmp_path: Path) -> None:
    for name, failed, last in (("a", "[  100.000000]", "[  900.000000]"),
                               ("b", "Mar  2 08:00:00 n kernel:", "Mar  2 09:00:00 n kernel:")):
        (tmp_path / name).write_text(f"{failed} nvidia 0000:03:00.0: probe with driver nvidia failed with error -110\n"
                                     f"{last} usb 1-1: new high-speed USB device\n")
        for since, code in (("5m", Exit.UNKNOWN), ("2h", Exit.FAULT)):
            assert hotplugctl("diagnose", "--from", str(tmp_path / name), "--since", since).code == code, (name, since)


def test_the_result_alone_is_on_stdout(root: str) -> None:
    result = hotplugctl("list", "--root", root, "-o", "json")
    document = json.loads(result.out)
    assert list(document) == ["schema", "tool", "host", "taken_at", "data", "errors"]
    assert (document["schema"], document["errors"]) == ("hotplugctl.devices/1", [])
    assert [d["address"] for d in document["data"]] == ["0000:01:00.0", "0000:03:00.0"]
    assert (result.code, result.err) == (0, "")


def test_without_accelerators_the_list_is_empty_and_the_hint_goes_to_stderr(machine: MachineTree) -> None:
    result = hotplugctl("list", "--root", str(machine.root), "-o", "json")
    assert (result.code, result.data) == (0, [])
    assert "hotplugctl list --all-pci" in result.err
    assert hotplugctl("list", "--root", str(machine.root), "-q").err == ""


@pytest.mark.parametrize("form", ["plain", "markdown", "tsv", "table", "jsonl"])
def test_every_form_shows_the_same_cards(root: str, form: str) -> None:
    result = hotplugctl("list", "--root", root, "-o", form, "--vendor", "nvidia")
    assert "0000:03:00.0" in result.out
    assert "\x1b" not in result.out


def test_json_means_minus_o_json_wherever_it_stands(root: str) -> None:
    forms = [("list", "--json"), ("--json", "list"), ("list", "-o", "json"), ("list", "--output=json")]
    assert len({hotplugctl(*words, "--root", root).out[-500:] for words in forms}) == 1
    assert json.loads(hotplugctl("list", "--root", root, env={"HOTPLUGCTL_OUTPUT": "json"}).out)["data"]


def test_a_bare_command_is_the_list_with_a_line_on_health(root: str) -> None:
    result = hotplugctl("--root", root)
    assert "0000:03:00.0" in result.out
    assert "ready; " in result.out
    assert "hotplugctl diagnose" in result.out


def test_columns_are_chosen_and_a_wrong_one_is_named(root: str) -> None:
    result = hotplugctl("list", "--root", root, "--columns", "slot,state", "-o", "tsv", "--slot", "3")
    assert result.out == "SLOT\tSTATE\n3\tmapped\n"
    wrong = hotplugctl("list", "--root", root, "--columns", "slot,stat")
    assert (wrong.code, "no column 'stat'" in wrong.err) == (Exit.USAGE, True)


def test_a_slot_with_several_devices_is_an_array_and_one_is_an_object(machine: MachineTree) -> None:
    machine.port()
    for function in "01":
        machine.card(f"0000:01:00.{function}", vendor="10de", device="2330", class_="030200", driver="nvidia")
    root = str(machine.root)
    assert isinstance(hotplugctl("probe", "slot:1", "--root", root, "--json").data, list)
    assert hotplugctl("probe", "01:00.1", "--root", root, "--json").data["address"] == "0000:01:00.1"


def test_an_empty_slot_is_probed_as_absent(root: str) -> None:
    data = hotplugctl("probe", "slot:2", "--root", root, "--json").data
    assert (data["state"], data["address"], data["upstream"][-1]["address"]) == ("absent", None, "0000:00:02.0")


def test_a_capture_answers_like_the_machine(root: str, tmp_path: Path) -> None:
    bundle = str(tmp_path / "card.tar.gz")
    live = hotplugctl("probe", "slot:3", "--root", root, "--json", "--redact", "--capture", bundle)
    again = hotplugctl("probe", "slot:3", "--root", bundle, "--json")
    assert live.code == again.code == 0
    assert live.data == again.data
    assert "aliases" in live.err


def test_what_is_expected_is_saved_and_compared(root: str, machine: MachineTree, tmp_path: Path) -> None:
    expected = str(tmp_path / "expected.json")
    assert hotplugctl("list", "--root", root, "--save-expect", expected).code == 0
    assert hotplugctl("list", "--root", root, "--expect", expected).code == 0
    (Path(root) / "sys/bus/pci/devices/0000:03:00.0").unlink()
    missing = hotplugctl("list", "--root", root, "--expect", expected, "--json")
    assert missing.code == Exit.FAULT
    assert "missing: slot:3" in json.loads(missing.out)["differences"][0]


@pytest.mark.parametrize(("words", "code", "says"), [
    (("probe", "slot:9"), Exit.UNKNOWN, "no device slot:9"),
    (("probe", "nonsense"), Exit.UNKNOWN, "no device nonsense"),
    (("probe", "0000:01:00.1"), Exit.UNKNOWN, "did you mean"),
    (("probe",), Exit.USAGE, "Missing argument"),
    (("list", "--colour"), Exit.USAGE, "No such option"),
    (("list", "-o", "xml"), Exit.USAGE, "'xml' is not one of"),
    (("frobnicate",), Exit.USAGE, "No such command"),
    (("list", "--state", "redy"), Exit.USAGE, "no state 'redy'"),
    (("list", "--config", "/no/such.yaml"), Exit.USAGE, "no configuration file"),
    (("list", "--expect", "/no/such"), Exit.USAGE, "cannot read /no/such"),
    (("probe", "slot:3", "--fits", "16X"), Exit.USAGE, "is not a size"),
    (("probe", "slot:3", "--locate", "on"), Exit.USAGE, "--locate cannot be used with --root"),
    (("list", "--handshake"), Exit.USAGE, "--handshake cannot be used with --root"),
    (("probe", "slot:3", "--capture", "/etc/passwd"), Exit.USAGE, "/etc/passwd exists"),
    (("watch",), Exit.USAGE, "watch cannot be used with --root"),
    (("drain", "slot:3"), Exit.USAGE, "drain cannot be used with --root"),
    (("drain",), Exit.USAGE, "no device is named"),
    (("drain", "slot:3", "--undo", "--status"), Exit.USAGE, "--undo cannot be used with --status"),
    (("drain", "slot:3", "--undo", "--power-off"), Exit.USAGE, "goes only with a drain"),
    (("drain", "slot:3", "--scheduler", "pbs"), Exit.USAGE, "it is one of auto, none, slurm, kubernetes"),
    (("drain", "slot:3", "--scope", "rack"), Exit.USAGE, "it is one of device, node"),
    (("drain", "slot:3", "--timeout", "soon"), Exit.USAGE, "is not a duration"),
    (("drain", "slot:1", "slot:2", "--replace"), Exit.USAGE, "--replace takes one device"),
    (("drain", "slot:9", "--dry-run"), Exit.UNKNOWN, "no device slot:9"),
    (("drain", "0000:09:00.0"), Exit.UNKNOWN, "no drain is recorded of it"),
    (("diagnose", "--fail-on", "bad"), Exit.USAGE, "is no severity"),
    (("diagnose", "--since", "yesterday"), Exit.USAGE, "is not a duration"),
    (("diagnose", "--explain", "bar_space_exhaustd"), Exit.USAGE, "bar_space_exhausted"),
    (("diagnose", "slot:9"), Exit.UNKNOWN, "no device slot:9"),
    (("diagnose", "--from", "x"), Exit.USAGE, "--from cannot be used with --root"),
    (("list", "--slots", "--columns", "slot"), Exit.USAGE, "leave --slots out"),
    (("diagnose", "--state", "redy"), Exit.USAGE, "no state 'redy'"),
    (("diagnose", "--numa", "7"), Exit.UNKNOWN, "nothing to diagnose"),
])
def test_bad_input_is_one_sentence_with_the_right_exit_code(
    root: str, words: tuple[str, ...], code: Exit, says: str
) -> None:
    result = hotplugctl(*words, "--root", root)
    assert result.code == code, result.err
    assert says in result.err
    assert result.err.startswith("hotplugctl: ")
    assert "Traceback" not in result.err
    assert len(result.err.splitlines()) == 1
    assert result.out == ""
    document = json.loads(hotplugctl(*words, "--root", root, "--json").out)
    assert document["schema"] == "hotplugctl.error/1"
    assert (document["error"]["code"], document["error"]["name"]) == (code, code.name.lower())


def test_evidence_that_is_not_there_or_empty_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    for path in (tmp_path / "none.log", tmp_path / "empty.log", tmp_path):
        result = hotplugctl("diagnose", "--from", str(path))
        assert result.code == Exit.UNKNOWN
        assert path.name in result.err
        assert "Traceback" not in result.err


def test_an_unusable_file_beside_a_usable_one_is_named_and_the_answer_stands(tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text("[ 1.0] nvidia 0000:01:00.0: probe with driver nvidia failed with error -5\n")
    result = hotplugctl("diagnose", "--from", str(tmp_path / "dmesg"), "--from", str(tmp_path / "none"), "--json")
    assert result.code == Exit.FAULT
    assert json.loads(result.out)["errors"][0]["what"] == str(tmp_path / "none")


def test_text_evidence_is_redacted_on_request(tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text(
        "[ 1.0] nvidia 0000:01:00.0: serial number: ABCD1234 host 10.1.2.3\n"
        "[ 1.1] nvidia 0000:01:00.0: probe with driver nvidia failed with error -5\n"
    )
    for form in ("json", "plain"):
        out = hotplugctl("diagnose", "--from", str(tmp_path / "dmesg"), "--redact", "-o", form).out
        assert "ABCD1234" not in out
        assert "10.1.2.3" not in out


def test_slots_obey_filters(root: str) -> None:
    assert [s["name"] for s in hotplugctl("list", "--slots", "--root", root, "--json", "--slot", "2").data] == ["2"]
    assert [s["name"] for s in hotplugctl("list", "slot:1", "--slots", "--root", root, "--json").data] == ["1"]
    found = hotplugctl("list", "--slots", "--root", root, "--json", "--vendor", "nvidia").data
    assert [s["name"] for s in found] == ["3"]


def test_a_value_is_not_taken_for_the_verb(root: str) -> None:
    assert hotplugctl("--root", root, "list", "--json").data
    assert hotplugctl("--root", "list", "list").code == Exit.UNKNOWN


def test_verbose_says_where_things_came_from_and_quiet_says_nothing(root: str) -> None:
    assert "PCI functions" in hotplugctl("list", "--root", root, "-v").err
    assert hotplugctl("list", "--root", root, "-q").err == ""


def test_a_root_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "none", tmp_path / "text", tmp_path):
        result = hotplugctl("list", "--root", str(path))
        assert (result.code, "Try: " in result.err, "Traceback" in result.err) == (Exit.UNKNOWN, True, False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to take privileges away")
def test_what_is_not_permitted_is_denied_and_names_what_is_needed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.tar"
    secret.write_bytes(b"x")
    secret.chmod(0o600)
    os.chown(secret, 65534, 65534)
    for words in (("list", "--root", str(secret)), ("diagnose", "--from", str(secret))):
        result = hotplugctl(*words, within=UNPRIVILEGED)
        assert result.code == Exit.DENIED, result.err
        assert "ermission denied" in result.err


def test_a_reader_that_leaves_early_is_success(root: str) -> None:
    command = f"{sys.executable} -m hotplugctl list --root {root} --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{0\n", "")


def test_an_unexpected_error_is_a_bug_with_a_way_to_its_trace(machine: MachineTree) -> None:
    code = (
        "import hotplugctl.probe as p, hotplugctl.__main__ as m, sys\n"
        "p.machine = None\nsys.exit(m.run(sys.argv[1:]))"
    )
    for words, trace in ((["list"], False), (["list", "--debug"], True)):
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--root", str(machine.root)],
            capture_output=True, text=True, timeout=60,
        )
        assert done.returncode == Exit.BUG
        assert ("Traceback" in done.stderr) is trace
        assert "an unexpected error in hotplugctl" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_with_its_own_code(how: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import hotplugctl.probe as p, hotplugctl.__main__ as m, sys, time\n"
        "p.machine = lambda *a, **k: (print('here', flush=True), time.sleep(30))\n"
        "sys.exit(m.run(['list']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(how)
        _, err = process.communicate(timeout=20)
    assert process.returncode == Exit.INTERRUPTED
    assert b"Traceback" not in err


def test_help_shows_options_exit_codes_and_two_examples() -> None:
    for verb in ("list", "probe", "watch", "drain", "diagnose"):
        result = hotplugctl(verb, "--help")
        assert result.code == 0
        assert len(re.findall(rf"^ +hotplugctl {verb}\b", result.out, re.M)) == 2
        for code in Exit:
            assert f"{int(code):>5}  {code.name.lower()}" in result.out
    assert hotplugctl("--version").out == hotplugctl("probe", "--version").out != ""


HEAVY = ("rich", "pyudev", "yaml", "pydantic", "tabulate")


@pytest.mark.parametrize(("words", "may"), [
    (("list", "-o", "json"), ()), (("list", "-o", "tsv"), ()), (("list", "-o", "plain"), ("tabulate",)),
    (("probe", "slot:3", "--json"), ()), (("--help",), ()), (("list", "-o", "table"), ("rich",)),
])
def test_a_command_imports_only_what_it_uses(root: str, words: tuple[str, ...], may: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "hotplugctl", *words], env={**os.environ, "HOTPLUGCTL_ROOT": root},
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert {name for name in HEAVY if name in imported} == set(may)


def test_log_text_cannot_drive_the_terminal(machine: MachineTree) -> None:
    machine.port()
    machine.card(vendor="10de", device="2330", class_="030200", driver=None, serial_number="S\x1b[31mN\x07")
    machine.kmsg("nvidia 0000:01:00.0: probe with driver nvidia failed with error -5 \x1b]0;owned\x07")
    for form in ("table", "plain", "markdown", "tsv", "json"):
        out = hotplugctl("probe", "slot:1", "--root", str(machine.root), "-o", form).out
        assert "\x1b" not in out
        assert "\x07" not in out
