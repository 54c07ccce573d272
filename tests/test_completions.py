"""The completions in the real shells: what each offers, with no Python and, but for file names, no process started."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from .generate.commands import VERBS, verb
from .machine import MachineTree

FOLDER = Path(__file__).parent.parent / "completions"
NOTHING = "/nonexistent"


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def tree(machine: MachineTree) -> Path:
    """Two accelerators, a display controller, a network card, and two slots."""
    machine.port(slot="3", bus=1)
    machine.card("0000:01:00.0")
    machine.port("0000:00:02.0", slot="riser-4", bus=0x3B)
    machine.card("0000:3b:00.0", under="0000:00:02.0", vendor="10de", device="2330", class_="030200", driver=None)
    machine.function("0000:00:1f.6", "8086", "15fb", "020000")
    return machine.root


DEVICES = {"all", "slot:3", "slot:riser-4", "0000:01:00.0", "0000:3b:00.0"}


def bash(line: str) -> list[str]:
    """COMPREPLY for a line: words split at : and = as bash splits them, and no program to be found."""
    words = [part for word in line.split(" ") for part in (re.split(r"([:=]+)", word) if word else [""])]
    words = [word for n, word in enumerate(words) if word or n == len(words) - 1]
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hotplugctl; '
        '((${#COMPREPLY[@]})) && printf "%s\\n" "${COMPREPLY[@]}"; exit 0'
    )
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", script, "-", str(FOLDER / "hotplugctl.bash"), *words],
        capture_output=True, text=True, timeout=20, env={"PATH": NOTHING, "HOME": NOTHING},
    )
    said = [row for row in done.stderr.splitlines() if "compopt: not currently executing" not in row]
    assert not said, f"{line!r}: {said}"
    return done.stdout.splitlines()


def fish(line: str) -> list[str]:
    """What fish offers for a line."""
    script = 'source $argv[1]; set -e argv[1]; set -gx PATH /nonexistent; complete -C "$argv[1]"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", script, str(FOLDER / "hotplugctl.fish"), line], capture_output=True, text=True,
        timeout=20, env={"PATH": os.environ["PATH"], "HOME": NOTHING, "TERM": "dumb"},
    )
    assert not done.stderr, f"{line!r}: {done.stderr}"
    return [row.split("\t")[0] for row in done.stdout.splitlines()]


class Terminal:
    """An interactive shell on a terminal of its own, large enough for every list."""

    def __init__(self, argv: Sequence[str], setup: str) -> None:
        self._shell, self._end = pty.fork()
        if self._shell == 0:
            os.execvpe(argv[0], list(argv), {
                "PATH": os.environ["PATH"], "HOME": NOTHING, "TERM": "dumb", "PS1": "", "LC_ALL": "C",
            })
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", 500, 200, 0, 0))
        os.write(self._end, f" {setup}; printf '\\074ready\\076'\n".encode())
        self._said()

    def tab(self, line: str) -> tuple[str, str]:
        """(the line as TAB completed it, all that was shown): the line is printed rather than run."""
        os.write(self._end, f"{line}\t".encode())
        os.write(self._end, b"\x01printf '\\074%s\\076' '\x05'\n")
        return self._said()

    def close(self) -> None:
        """End the shell."""
        os.close(self._end)
        os.waitpid(self._shell, 0)

    def _said(self) -> tuple[str, str]:
        """What is printed between < and >, and all that came before."""
        text, limit = "", time.monotonic() + 20
        while (found := re.search(r"<([^<>]*)>", text)) is None:
            ready, _, _ = select.select([self._end], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"the shell says only {text!r}"
            text += os.read(self._end, 65536).decode(errors="replace")
        return found[1].rstrip(), text


@pytest.fixture
def zsh() -> Iterator[Terminal]:
    terminal = Terminal(
        ["zsh", "-f", "-i"],
        f"PS1=; fpath=({FOLDER} $fpath); autoload -U compinit; compinit -D -u; bindkey -e; "
        "setopt no_beep auto_list no_list_ambiguous no_always_last_prompt; LISTMAX=9999; unsetopt zle_bracketed_paste",
    )
    yield terminal
    terminal.close()


@pytest.fixture
def interactive_bash() -> Iterator[Terminal]:
    terminal = Terminal(
        ["bash", "--norc", "--noprofile", "-i"],
        f"PS1=; source {FOLDER}/hotplugctl.bash; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'",
    )
    yield terminal
    terminal.close()


SHELLS = pytest.mark.parametrize("offers", [
    pytest.param(bash, marks=needs("bash"), id="bash"), pytest.param(fish, marks=needs("fish"), id="fish"),
])
Offers = Callable[[str], list[str]]


@SHELLS
def test_the_five_verbs_are_offered(offers: Offers) -> None:
    assert set(offers("hotplugctl ")) == set(VERBS)
    assert offers("hotplugctl dr") == ["drain"]
    assert set(offers("hotplugctl --root demo ")) == set(VERBS)


@SHELLS
@pytest.mark.parametrize("name", VERBS)
def test_every_option_of_a_verb_is_offered(offers: Offers, name: str) -> None:
    wanted = {option.long for option in verb(name).options}
    assert set(offers(f"hotplugctl {name} --")) == wanted


@SHELLS
def test_options_without_a_verb_are_those_of_list(offers: Offers) -> None:
    assert set(offers("hotplugctl --")) == {option.long for option in verb("list").options}


@SHELLS
def test_an_option_with_few_values_offers_them(offers: Offers) -> None:
    assert set(offers("hotplugctl list --state d")) == {"detected", "draining", "drained"}
    assert set(offers("hotplugctl list -o json")) == {"json", "jsonl"}
    assert offers("hotplugctl diagnose --fail-on c") == ["critical"]
    assert set(offers("hotplugctl watch --source ")) == {"auto", "udev", "kernel"}
    assert offers("hotplugctl diagnose --explain bar_sp") == ["bar_space_exhausted"]
    assert offers("hotplugctl list --vendor asc") == ["ascend"]
    assert set(offers("hotplugctl probe slot:1 --locate o")) == {"on", "off"}


@SHELLS
def test_a_value_behind_an_equals_sign_is_offered(offers: Offers) -> None:
    assert [word.removeprefix("--state=") for word in offers("hotplugctl list --state=fa")] == ["failed"]


@SHELLS
def test_columns_are_offered_one_after_the_other(offers: Offers) -> None:
    assert [word.removeprefix("slot,") for word in offers("hotplugctl list --columns slot,lin")] == ["link"]


@SHELLS
def test_where_text_is_wanted_nothing_is_offered(offers: Offers) -> None:
    assert offers("hotplugctl drain --reason ") == []
    assert offers("hotplugctl watch --count ") == []


@SHELLS
def test_file_options_offer_files_and_machines_the_demo_too(offers: Offers, tmp_path: Path) -> None:
    (tmp_path / "case.txt").touch()
    assert offers(f"hotplugctl diagnose --from {tmp_path}/ca") == [f"{tmp_path}/case.txt"]
    assert offers(f"hotplugctl list --expect {tmp_path}/ca") == [f"{tmp_path}/case.txt"]
    assert offers("hotplugctl list --root dem") == ["demo"]


@SHELLS
def test_devices_of_the_machine_looked_at_are_offered(offers: Offers, tree: Path) -> None:
    assert set(offers(f"hotplugctl probe --root {tree} ")) == DEVICES
    assert offers(f"hotplugctl list --root {tree} --slot ri") == ["riser-4"]


@needs("bash")
def test_bash_continues_a_device_behind_its_colon(tree: Path) -> None:
    assert bash(f"hotplugctl probe --root={tree} slot:r") == ["riser-4"]
    assert bash(f"hotplugctl probe --root={tree} 0000:3b:0") == ["00.0"]
    assert bash(f"hotplugctl probe --root={tree} 3b:0") == ["00.0"]


@needs("bash")
def test_bash_completes_a_line_at_a_terminal(interactive_bash: Terminal, tree: Path) -> None:
    assert interactive_bash.tab("hotplugctl dia")[0] == "hotplugctl diagnose"
    probe = f"hotplugctl probe --root={tree}"
    assert interactive_bash.tab(f"{probe} slot:r")[0] == f"{probe} slot:riser-4"
    assert interactive_bash.tab("hotplugctl list --state=fa")[0] == "hotplugctl list --state=failed"


@needs("zsh")
def test_zsh_completes_a_line_at_a_terminal(zsh: Terminal, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "case.txt").touch()
    probe = f"hotplugctl probe --root={tree}"
    for typed, completed in (
        ("hotplugctl dia", "hotplugctl diagnose"),
        ("hotplugctl --json dr", "hotplugctl --json drain"),
        (f"{probe} slot:r", f"{probe} slot:riser-4"),
        (f"{probe} 0000:3b", f"{probe} 0000:3b:00.0"),
        ("hotplugctl list --state=fa", "hotplugctl list --state=failed"),
        ("hotplugctl list --state fa", "hotplugctl list --state failed"),
        ("hotplugctl list -o mark", "hotplugctl list -o markdown"),
        ("hotplugctl list --columns slot,lin", "hotplugctl list --columns slot,link"),
        ("hotplugctl list --save", "hotplugctl list --save-expect"),
        ("hotplugctl diagnose --explain bar_sp", "hotplugctl diagnose --explain bar_space_exhausted"),
        (f"hotplugctl diagnose --from {tmp_path}/ca", f"hotplugctl diagnose --from {tmp_path}/case.txt"),
        (f"hotplugctl list --root {tree} --slot ri", f"hotplugctl list --root {tree} --slot riser-4"),
    ):
        assert zsh.tab(typed)[0].rstrip("=") == completed


@needs("zsh")
@pytest.mark.parametrize("name", VERBS)
def test_zsh_lists_every_option_of_a_verb(zsh: Terminal, name: str) -> None:
    _, shown = zsh.tab(f"hotplugctl {name} --")
    for option in verb(name).options:
        assert re.search(rf"{option.long}\b", shown), f"{option.long} is not in {shown}"


@needs("zsh")
def test_zsh_lists_the_devices_of_the_machine_looked_at(zsh: Terminal, tree: Path) -> None:
    _, shown = zsh.tab(f"hotplugctl probe --root {tree} ")
    assert {word for word in DEVICES if word in shown} == DEVICES
    assert "00:1f.6" not in shown
