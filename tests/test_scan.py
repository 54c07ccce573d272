"""A large log is read line by needed line, and the diagnosis is the one that reading every line gives."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hotplugctl import opened, probe
from hotplugctl.config import Settings
from hotplugctl.diagnose import diagnose, needs
from hotplugctl.host.opening import demo_path, open_host
from hotplugctl.model import Diagnosis, Machine
from hotplugctl.readers import archives, scan
from hotplugctl.readers.archives import Evidence, evidence
from hotplugctl.readers.engines import ENGINES, finder
from hotplugctl.readers.logs import KERNEL, parse_lines, read_log
from hotplugctl.rules import load
from hotplugctl.rules.weaken import finds_anything, weaker

from .test_cases import CASES

RULES = load.load_rules(load.rule_files())
PATTERNS = needs.patterns(RULES)
NAMES = [engine.name for engine in ENGINES]
# Neither the beginning nor the end of a file is kept for its own sake.
BARE = scan.Limits(head=0, tail=1)
DAEMONS = Path(__file__).parent.joinpath("daemons.log").read_text().splitlines()


@cache
def sieve_of(name: str) -> scan.Sieve:
    pytest.importorskip(next(engine.module for engine in ENGINES if engine.name == name))
    made = scan.sieve(PATTERNS, needs.FOLLOWED, 0, name)
    assert made is not None
    assert made.engine == name
    return made


@pytest.fixture(scope="session", params=NAMES)
def sieve(request: pytest.FixtureRequest) -> scan.Sieve:
    name: str = request.param
    return sieve_of(name)


def diagnosed(found: Evidence) -> Diagnosis:
    """All of it but what ties the clocks of several sources: that is learnt from any line, needed or not."""
    machine = Machine(host="", devices=found.devices, ports=found.ports, logs=found.logs)
    whole = diagnose(machine, RULES, load.taxonomy(), load.profiles(), live=False)
    moments = sorted((replace(moment, time=None, monotonic=None, clock=0, after=None) for moment in whole.timeline),
                     key=lambda moment: (moment.source, moment.line, moment.text))
    return replace(whole, clocks=(), timeline=tuple(moments))


def files_of(case: Path) -> list[Path]:
    return [path for path in sorted(case.iterdir()) if path.name != "case.yaml"]


def among_others(text: str, seed: str) -> str:
    """The text after a hundred lines of daemons, and with more of them in it, as journald would put them."""
    dice = random.Random(seed)
    lines = dice.choices(DAEMONS, k=100)
    for line in text.splitlines():
        if not line.startswith((" ", "\t")):
            lines += dice.choices(DAEMONS, k=dice.choice((0, 0, 1, 3, 20)))
        lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_diagnosis_of_a_case_is_the_same_with_the_scan(case: Path) -> None:
    """Each case by one engine in turn; that all engines find the same lines another test says."""
    sieve = sieve_of(NAMES[CASES.index(case) % len(NAMES)])
    paths = [str(path) for path in files_of(case)]
    scanned = evidence(paths, lambda _size: sieve, small=0, limits=BARE)
    assert len(scanned.scanned) == len(paths)
    assert diagnosed(scanned) == diagnosed(evidence(paths))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_diagnosis_of_a_case_among_other_lines_is_the_same_with_the_scan(case: Path, tmp_path: Path) -> None:
    sieve = sieve_of(NAMES[(CASES.index(case) + 1) % len(NAMES)])
    for path in files_of(case):
        (tmp_path / path.name).write_text(among_others(path.read_text(errors="replace"), f"{case.name} {path.name}"))
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    whole, scanned = evidence(paths), evidence(paths, lambda _size: sieve, small=0, limits=BARE)
    assert len(scanned.logs) < len(whole.logs)
    assert diagnosed(scanned) == diagnosed(whole)


def as_kmsg(number: int, text: str) -> str:
    body = text.replace("\\", "\\x5c")
    return f"6,{number},{number * 1000},-;{body}\n SUBSYSTEM=pci"


def as_json(number: int, text: str) -> str:
    return json.dumps({"MESSAGE": text, "PRIORITY": "6", "_SOURCE_MONOTONIC_TIMESTAMP": str(number * 1000)})


def as_journal(number: int, text: str) -> str:
    return f"Mar  2 08:{number // 60 % 60:02d}:{number % 60:02d} node-17 kernel: {text}"


def as_colours(number: int, text: str) -> str:
    head, colon, rest = text.partition(": ")
    return f"\x1b[32m[{number / 1000:12.6f}] \x1b[0m\x1b[33m{head}{colon}\x1b[0m{rest}"


def as_console(number: int, text: str) -> str:
    return f"[{number / 1000:12.6f}] {text}\r"


FORMS = (as_kmsg, as_json, as_journal, as_colours, as_console)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_the_diagnosis_is_the_same_with_the_scan_in_every_form_of_log(
    form: Callable[[int, str], str], sieve: scan.Sieve, tmp_path: Path
) -> None:
    for case in CASES[FORMS.index(form)::len(FORMS)]:
        path = tmp_path / "log"
        read = evidence([str(path) for path in files_of(case)])
        texts = [*DAEMONS]
        for line in read.logs:
            texts += [line.text, *random.Random(line.text).choices(DAEMONS, k=3)]
        path.write_text("\n".join(form(number, text) for number, text in enumerate(texts, 1)), newline="")
        whole = evidence([str(path)])
        scanned = evidence([str(path)], lambda _size: sieve, small=0, limits=BARE)
        assert diagnosed(scanned) == diagnosed(whole), case.name


def test_the_captured_machine_that_ships_gets_the_same_diagnosis_with_the_scan(sieve: scan.Sieve) -> None:
    settings = Settings()
    seen = opened.look_at("demo", settings, redact=False)
    machine = probe.machine(seen, close=True)
    text = open_host(demo_path()).log("kernel")
    assert isinstance(text, str)
    kept = scan.keep(sieve, [text.encode()], BARE)
    answers = [
        diagnose(replace(machine, logs=lines), RULES, load.taxonomy(), seen.profiles, live=True)
        for lines in (read_log(text, KERNEL), parse_lines(((n, raw.decode()) for n, raw in kept.lines), KERNEL).lines)
    ]
    assert answers[0].verdict == "fault"
    assert answers[0] == answers[1]


TEXTS = sorted(
    {line for case in CASES for path in files_of(case) for line in path.read_text(errors="replace").splitlines()}
    | set(DAEMONS)
)


@pytest.mark.parametrize("spelt", [str, json.dumps], ids=["plain", "as JSON"])
def test_a_weaker_pattern_finds_all_that_its_own_finds(spelt: Callable[[str], str]) -> None:
    for pattern in (*PATTERNS, *scan.READ):
        own, weak = re.compile(pattern), re.compile(weaker(pattern).encode())
        assert not finds_anything(weaker(pattern)), pattern
        for text in TEXTS:
            if own.search(text):
                assert weak.search(spelt(text).encode()), (pattern, text)


@pytest.mark.parametrize(("pattern", "text"), [
    (r"(?<!VF )BAR (?P<bar>\d): (?P=bar)", "BAR 3: 3"),
    (r"^gone$", "[ 1.0] gone"),
    (r"no.device", "no\u00a0device"),
    (r"a{3}[^x]{2,3}b", "aaa\u4e2d\u6587b"),
    (r"(?i)STRASSE \d", "strasse \u0663"),
    (r"(?i:gpu) LOST", "gPu LOST"),
    (r"9\u6708", "9\u6708"),
    (r"x{70,90}y", "x" * 80 + "y"),
    (r'say "no"', "say \"no\""),
])
def test_a_weaker_pattern_is_of_bytes_and_knows_no_looking_around(pattern: str, text: str) -> None:
    weak = re.compile(weaker(pattern).encode())
    assert re.search(pattern, text.removeprefix("[ 1.0] "))
    assert weak.search(text.encode())
    assert weak.search(json.dumps(text, ensure_ascii=False).encode())


@pytest.mark.parametrize("name", NAMES)
def test_every_engine_finds_the_same_lines(name: str) -> None:
    pytest.importorskip(next(engine.module for engine in ENGINES if engine.name == name))
    block = "\n".join(TEXTS).encode() + b"\n"
    lines = [
        {block.count(b"\n", 0, place) for place in finder(PATTERNS, 0, only)[1](block)} for only in (name, "python")
    ]
    assert lines[0] == lines[1]
    assert 100 < len(lines[0]) < len(TEXTS)


def test_a_pattern_that_finds_every_line_leaves_nothing_to_scan_for() -> None:
    assert scan.sieve([".*"], {}, 0) is None


def test_a_rule_of_the_site_is_looked_for_as_well() -> None:
    assert len(scanned_text("nothing\n" * 99 + "quux 7\n" + "nothing\n" * 99)) == 1
    assert [n for n, _ in scanned_text("nothing\n" * 99 + "quux 7\n" + "nothing\n" * 99, r"quux (?=\d)")] == [100, 199]


def scanned_text(
    text: str | bytes, *more: str, limits: scan.Limits = BARE, followed: Mapping[str, int] = needs.FOLLOWED,
    size: int = 1 << 18,
) -> tuple[tuple[int, bytes], ...]:
    """What a scan with Python's own engine keeps of a text that comes in pieces of `size` bytes."""
    made = scan.sieve([*more, "SEEN"], followed, 0, "python")
    assert made is not None
    content = text.encode() if isinstance(text, str) else text
    return scan.keep(made, (content[at:at + size] for at in range(0, len(content), size)), limits).lines


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 18])
@pytest.mark.parametrize(("claim", "text", "numbers"), [
    ("a line", "a\nb\nSEEN\nc\nd", [3, 5]),
    ("CRLF", "a\r\n\r\nSEEN\r\nc\r\n", [3, 4]),
    ("no end of line", "a\nb\nSEEN", [3]),
    ("blank lines", "\n\n\nSEEN\n\n\nx\n", [4, 7]),
    ("what it belongs to", "a\nhead\n  more\n\n  SEEN\n  not\nb\n", [2, 3, 4, 5, 7]),
    ("what it belongs to, in a mail", "a\n> head\n>   SEEN\nb\n", [2, 3, 4]),
    ("a report and the stack below it", "a\nBUG: x\n1\n\n2\n3\nb\n", [2, 3, 4, 5, 7]),
    ("colours", "a\nSE\x1b[0mEN\nb\n", [2, 3]),
    ("a function of lspci", "a\n3b:00.0 3D controller: X\n\tx\n\ty\n", [2, 3, 4]),
])
def test_what_belongs_to_a_line_is_kept_with_it(claim: str, text: str, numbers: list[int], size: int) -> None:
    assert [number for number, _ in scanned_text(text, "BUG: ", followed={"BUG: ": 2}, size=size)] == numbers


def test_numbers_and_bytes_of_kept_lines_are_those_of_the_file() -> None:
    dice = random.Random(5)
    lines = [dice.choice((b"x", b"a\xffb", b"SEEN \xe4", b"", b" SEEN", b"\tz", b"y" * 300)) for _ in range(3000)]
    for size in (11, 1000, 1 << 18):
        kept = scanned_text(b"\n".join(lines), size=size)
        assert all(lines[number - 1] == raw for number, raw in kept)
        assert {number for number, raw in kept} >= {n for n, raw in enumerate(lines, 1) if b"SEEN" in raw}
        assert len(dict(kept)) == len(kept)


def test_memory_is_bounded_and_what_repeats_is_counted() -> None:
    made = scan.sieve(["SEEN"], {}, 0, "python")
    assert made is not None
    limits = scan.Limits(part=30_000, of_a_kind=3, head=0, tail=1)
    text = "".join(f"SEEN {n} times\n" for n in range(2000)) + "SEEN once\n" + "SEEN 1 time\n" * 2000
    kept = scan.keep(made, [text.encode()], limits)
    assert kept.read == 4001
    assert kept.repeats == kept.read - len(kept.lines)
    assert len(kept.lines) < 400
    assert (2001, b"SEEN once") in kept.lines
    assert [number for number, _ in kept.lines] == sorted(number for number, _ in kept.lines)


def test_a_line_without_end_is_read_in_pieces() -> None:
    made = scan.sieve(["SEEN"], {}, 0, "python")
    assert made is not None
    pieces = [b"a\n", *[b"x" * (1 << 16)] * 20, b"SEEN", *[b"x" * (1 << 16)] * 20, b"\nSEEN too\n"]
    kept = scan.keep(made, pieces, BARE)
    assert {number for number, _ in kept.lines} == {2, 3}
    assert kept.read == 3
    assert kept.pieces == 1
    assert max(len(raw) for _, raw in kept.lines) < 2 * scan.MOST_LINE


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gz", "bz2", "xz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_large_log_is_read_whatever_its_encoding_and_compression(
    pack: Callable[[bytes], bytes], encoding: str, sieve: scan.Sieve, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    fault = "[ 2211.118240] pcieport 0000:64:02.0: pciehp: Slot(9): Power fault"
    filler = "\n".join(DAEMONS * 5)
    path.write_bytes(pack(f"{filler}\nd\u00e9j\u00e0\n{fault}\n{filler}\n".encode(encoding)))
    scanned = evidence([str(path)], lambda _size: sieve, small=1000)
    assert scanned.scanned[0].startswith(f"{path}: {len(DAEMONS) * 10 + 2:,} lines read, ")
    (line,) = (line for line in scanned.logs if line.slot == "9")
    assert line.line == len(DAEMONS) * 5 + 2
    assert diagnosed(scanned) == diagnosed(evidence([str(path)]))


def test_a_torn_archive_is_read_to_the_tear_and_said_to_be_half_read(tmp_path: Path, sieve: scan.Sieve) -> None:
    path = tmp_path / "torn.gz"
    text = "".join(f"[ {n}.0] pcieport 0000:64:02.0: pciehp: Slot(9): Power fault\n" for n in range(20_000))
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    for made in (None, lambda _size: sieve):
        found = evidence([str(path)], made, small=1000)
        assert len(found.logs) > 10_000
        (gap,) = found.gaps
        assert gap.half
        assert "what came before was read" in gap.reason


def test_a_large_json_document_is_said_to_be_half_understood(
    tmp_path: Path, sieve: scan.Sieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dmesg.json"
    said = "pcieport 0000:64:02.0: pciehp: Slot(9): Power fault"
    path.write_text(json.dumps({"dmesg": [{"pri": 3, "time": 1.5, "msg": said}] * 300}, indent=3))
    whole = evidence([str(path)], lambda _size: sieve, small=1000)
    assert {line.monotonic for line in whole.logs} == {1.5}
    assert not whole.gaps
    monkeypatch.setattr(archives, "MOST_DOCUMENT", 1000)
    half = evidence([str(path)], lambda _size: sieve, small=1000)
    assert "9" in {line.slot for line in half.logs}
    assert half.gaps[0].half


SAID = """
import sys
from hotplugctl.__main__ import run
run(["diagnose", "--verbose", "--from", sys.argv[1]])
sys.stderr.write(" ".join(name for name in ("hyperscan", "re2", "hotplugctl.readers.scan") if name in sys.modules))
"""


def test_a_usual_log_loads_no_engine_and_a_large_one_says_how_much_was_needed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(DAEMONS * 20))
    usual = subprocess.run([sys.executable, "-c", SAID, path], capture_output=True, text=True, check=True)
    assert usual.stderr == ""
    path.write_text("\n".join(DAEMONS * 1000))
    large = subprocess.run([sys.executable, "-c", SAID, path], capture_output=True, text=True, check=True)
    assert re.match(rf"hotplugctl: {path}: 31,000 lines read, [\d,]+ of them needed \(\w+\)\n", large.stderr)
    assert "hotplugctl.readers.scan" in large.stderr
