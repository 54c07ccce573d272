"""Two thousand damaged inputs, made of the cases with a seed: no crash, no escape, no false alarm.

A log of a healthy machine gives no fault however it is shuffled, mixed with other healthy ones, indented or recoded.
It may also be cut where each of its lines is harmless alone: what ends between failure and repair shows a failure.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from hotplugctl.diagnose import diagnose, needs
from hotplugctl.errors import HotplugError
from hotplugctl.model import Diagnosis, Machine
from hotplugctl.output import documents
from hotplugctl.output.tables import render
from hotplugctl.output.verdicts import pages
from hotplugctl.readers import scan
from hotplugctl.readers.archives import Evidence, evidence
from hotplugctl.rules import load

from .test_cases import CASES, wanted

RULES = load.load_rules(load.rule_files())
SCHEMA = json.loads((Path(load.DATA) / "schemas" / "diagnosis.schema.json").read_text())
FILES = [path for case in CASES for path in sorted(case.iterdir()) if path.name != "case.yaml"]
OF_HEALTHY = [path for path in FILES if wanted(path.parent)["verdict"] == "healthy"]
ROUNDS = 20        # of a hundred inputs each

Mutation = Callable[[random.Random, bytes, bytes], bytes]
ESCAPES = (
    b"\x1b[31m", b"\x1b[2J", b"\x1b]0;title\x07", b"\x1b]8;;http://x\x1b\\", b"\x1bP+q\x1b\\", b"\x1b(0",
    b"\x07", b"\x08\x08", b"\x0e", b"\r", b"\x7f", b"\xe2\x80\xae", b"\x00",
)
# Introduced by bytes that one encoding has as such, another as a part of a letter.
EIGHT_BIT = (b"\xc2\x9b2J", b"\xc2\x9d0;t\xc2\x9c", b"\x9b31m", b"\x9d0;t\x9c", b"\xff\xfe", b"\xc3")


def lines_of(content: bytes) -> list[bytes]:
    return content.split(b"\n")


def cut(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    start, end = sorted(dice.choices(range(len(content) + 1), k=2))
    return content[start:end]


def cut_end(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return content[:dice.randrange(len(content) + 1)]


def shuffled(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    lines = lines_of(content)
    dice.shuffle(lines)
    return b"\n".join(lines)


def thinned(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return b"\n".join(line for line in lines_of(content) if dice.random() < 0.7)


def cut_lines(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return b"\n".join(line[:dice.randrange(len(line) + 1)] if dice.random() < 0.3 else line
                      for line in lines_of(content))


def doubled(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return b"\n".join(line for line in lines_of(content) for _ in range(dice.choice((1, 1, 2, 3))))


def interleaved(dice: random.Random, content: bytes, other: bytes) -> bytes:
    one, two = lines_of(content), lines_of(other)
    mixed = []
    while one or two:
        mixed.append((one if one and (not two or dice.random() < 0.5) else two).pop(0))
    return b"\n".join(mixed)


def spliced(dice: random.Random, content: bytes, other: bytes) -> bytes:
    return cut_end(dice, content, b"") + cut(dice, other, b"")


def joined(_dice: random.Random, content: bytes, other: bytes) -> bytes:
    return content + b"\n" + other


def crlf(_dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def recoded(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    encoding = dice.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32", "latin-1", "cp037", "gb18030"))
    return text.encode(encoding, "replace")


def escaped(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    places = (dice.randrange(len(text) + 1) for _ in range(dice.randrange(1, 30)))
    for at in sorted(places, reverse=True):
        text = text[:at] + dice.choice(ESCAPES).decode() + text[at:]
    return text.encode()


def noisy(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    out = bytearray(content)
    for _ in range(dice.randrange(1, 60)):
        at = dice.randrange(len(out) + 1)
        out[at:at] = dice.choice(EIGHT_BIT)
        out[dice.randrange(len(out))] = dice.randrange(256)
    return bytes(out)


def endless(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return content.replace(b"\n", b" " * dice.randrange(1, 40), dice.randrange(1, 200)) + b"x" * dice.randrange(40_000)


def indented(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return b"\n".join(dice.choice((b"", b"  ", b"\t", b"> ", b"   ")) + line for line in lines_of(content))


def packed(dice: random.Random, content: bytes, _other: bytes) -> bytes:
    whole = gzip.compress(content, mtime=0)
    return whole[:dice.randrange(20, len(whole) + 1)]


def as_json(_dice: random.Random, content: bytes, _other: bytes) -> bytes:
    return "\n".join(json.dumps({"MESSAGE": line.decode("utf-8", "replace")}) for line in lines_of(content)).encode()


# Lines are all there, each as it was or with something that a terminal obeys in it.
WHOLE: tuple[Mutation, ...] = (shuffled, doubled, interleaved, joined, crlf, recoded, escaped, indented, as_json)
# Lines or parts of them are missing, or run into one another.
PARTS: tuple[Mutation, ...] = (cut, cut_end, thinned, cut_lines, spliced, packed, endless)
LAST = (recoded, packed)
ALL: tuple[Mutation, ...] = (*WHOLE, *PARTS, noisy)


def mutated(dice: random.Random, mutations: tuple[Mutation, ...], files: list[Path]) -> tuple[str, bytes]:
    path, other = dice.choice(files), dice.choice(files)
    content, names = path.read_bytes(), []
    chosen = dice.sample(mutations, dice.choice((1, 1, 2, 3)))
    for mutate in sorted(chosen, key=lambda one: one in LAST):      # of one encoding, and packed as a whole
        content = mutate(dice, content, other.read_bytes()) if content else content
        names.append(mutate.__name__)
    return f"{path.parent.name}/{path.name} with {other.parent.name}/{other.name}: {', '.join(names)}", content


def answer(path: Path, sieve: scan.Sieve | None) -> tuple[Diagnosis, Evidence] | None:
    """The diagnosis, or None where there is nothing to go by."""
    try:
        found = evidence([str(path)], lambda _size: sieve, small=0 if sieve is not None else 1 << 20)
    except HotplugError:
        return None
    machine = Machine(host="", devices=found.devices, ports=found.ports, logs=found.logs, gaps=found.gaps)
    return diagnose(machine, RULES, load.taxonomy(), load.profiles(), live=False), found


@pytest.fixture(scope="session")
def sieve() -> scan.Sieve:
    made = scan.sieve(needs.patterns(RULES), needs.FOLLOWED, 0)
    assert made is not None
    return made


OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def check_what_is_shown(what: str, found: Diagnosis, read: Evidence) -> None:
    for form, color in (("table", False), ("plain", False), ("markdown", False)):
        shown = "\n".join(render(page, form, width=100, color=color) for page in pages(found, read.gaps))
        assert not OBEYED.search(shown), f"{what}: {OBEYED.findall(shown)} in {form}"
    document = documents.document("diagnosis", found, host="", taken_at="", gaps=read.gaps)
    assert document.isascii()
    assert not OBEYED.search(document), what
    jsonschema.validate(json.loads(document), SCHEMA)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_damaged_input_crashes_nothing_and_shows_nothing_to_obey(
    seed: int, tmp_path: Path, sieve: scan.Sieve
) -> None:
    dice, path = random.Random(seed), tmp_path / "log"
    for number in range(50):
        what, content = mutated(dice, ALL, FILES)
        path.write_bytes(content)
        got = answer(path, sieve if number % 5 == 0 else None)
        if got is not None:
            check_what_is_shown(what, *got)


@cache
def healthy() -> list[Path]:
    """The files of healthy cases, without those that another file of their case excuses."""
    alone = [(path, answer(path, None)) for path in OF_HEALTHY]
    return [path for path, got in alone
            if len(list(path.parent.iterdir())) == 2 or got is None or got[0].verdict != "fault"]


@cache
def harmless_alone() -> list[Path]:
    """The healthy files in which nothing needs another line to be harmless."""
    found = [(path, answer(path, None)) for path in healthy()]
    return [path for path, got in found if got is not None and not got[0].ruled_out and not got[0].findings]


def test_there_are_healthy_logs_of_both_kinds() -> None:
    assert 2 <= len(harmless_alone()) < len(healthy()) < len(OF_HEALTHY)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_damaged_log_of_healthy_machines_is_no_fault(seed: int, tmp_path: Path, sieve: scan.Sieve) -> None:
    dice, path = random.Random(1000 + seed), tmp_path / "log"
    for number in range(50):
        cuts = number % 2 == 0
        what, content = mutated(dice, (*WHOLE, *PARTS) if cuts else WHOLE, harmless_alone() if cuts else healthy())
        path.write_bytes(content)
        got = answer(path, sieve if number % 5 == 0 else None)
        if got is not None:
            assert got[0].verdict != "fault", f"{what}: {got[0].root_cause}"
