"""The page of a case: whole, faithful to the document, harmless whatever a log holds, to scale, and readable."""

from __future__ import annotations

import html as entities
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hotplugctl.__main__ import run
from hotplugctl.diagnose import diagnose
from hotplugctl.errors import Exit
from hotplugctl.model import Diagnosis, Gap, Machine, Moment, Spot
from hotplugctl.output import documents
from hotplugctl.output.branches import branches
from hotplugctl.output.drawing import Segment, drawing, segments
from hotplugctl.output.html import page
from hotplugctl.output.markup import lasted
from hotplugctl.output.tables import safe
from hotplugctl.readers.archives import evidence
from hotplugctl.readers.logs import read_log
from hotplugctl.rules import load

from .test_cases import CASES, answer

CARD = "0000:3b:00.0"
NO_SPACE = f"pci {CARD}: BAR 2 [mem size 0x1000000000 64bit pref]: can't assign; no space"
HOSTILE = (
    "<script>alert(1)</script>", "\"'><img src=http://evil.example/x onerror=alert(1)>", "\x1b]0;owned\x07\x1b[31mred",
    "\u202egnp.exe\u202c", "&lt;b&gt; &amp; </code></li></section></main>", "<!-- -->]]><svg onload=alert(1)>",
    "A" * 10_000, "word " * 2_000, "\x00\x7f\x9b", "style=} * { display: none }",
)
COMMAND = "hotplugctl diagnose --from dmesg.txt -o html"
VOID = {"meta"}
MOST_BYTES = 1_000_000


class Reader(HTMLParser):
    """Reads a page as strictly as XML: every element that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.problems: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{name}> is never closed" for name in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else, line {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.said.append(data)

    @property
    def text(self) -> str:
        """All that is said, spaces as one."""
        return " ".join(" ".join(self.said).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


def found_in(*texts: tuple[str, str]) -> tuple[Diagnosis, Machine]:
    machine = Machine(host="node7", taken_at="2026-03-02T08:20:00.000Z",
                      logs=tuple(line for source, text in texts for line in read_log(text, source)))
    return diagnose(machine, load.load_rules(load.rule_files()), load.taxonomy(), load.profiles(), live=False), machine


@cache
def case_page(case: Path) -> str:
    found = evidence([str(path) for path in sorted(case.iterdir()) if path.name != "case.yaml"])
    machine = Machine(host="", devices=found.devices, ports=found.ports, logs=found.logs, gaps=found.gaps)
    return page(answer(case), machine, COMMAND)


@cache
def hostile_page() -> str:
    lines = "".join(f"[{10 + n:12.6f}] {NO_SPACE} {text}\n" for n, text in enumerate(HOSTILE))
    found, machine = found_in(("<b>dmesg</b>.txt", lines))
    gaps = tuple(Gap(text, text) for text in HOSTILE)
    whole = Machine(host=HOSTILE[0], logs=machine.logs, gaps=gaps, kernel=HOSTILE[1], taken_at=HOSTILE[3])
    return page(found, whole, f"hotplugctl diagnose --from '{HOSTILE[0]}' -o html")


@cache
def crowded_page() -> str:
    """Some hundred broken cards, each with lines as long and as hostile as they get."""
    lines = []
    for n in range(240):
        at = f"0000:{n:02x}:00.0"
        lines += [f"[{n:12.6f}] pci {at}: [10de:2330] type 00 class 0x030200 PCIe Endpoint",
                  f"[{n + .1:12.6f}] {NO_SPACE.replace(CARD, at)} {'<' * 5000}",
                  f"[{n + .2:12.6f}] NVRM: GPU {at}: GPU has fallen off the bus. {'&' * 5000}"]
    return page(*found_in(("dmesg.txt", "\n".join(lines))), COMMAND)


@cache
def unknown_page() -> str:
    return page(*found_in(("dmesg.txt", f"[   12.000000] labaccel {CARD}: something odd failed: giving up\n")), COMMAND)


@cache
def demo_page() -> str:
    return _said("diagnose", "--from", "demo", "-o", "html")


def _said(*words: str) -> str:
    """What a command prints, in a process of its own: these helpers are used outside of capsys too."""
    from hotplugctl import entry

    code = f"import sys; sys.argv[1:] = {list(words)!r}; from {entry.__name__} import main; main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_page_of_a_case_is_well_formed_and_small(case: Path) -> None:
    text = case_page(case)
    assert Reader(text).problems == []
    assert text.isascii()
    assert len(text) < 200_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_page_says_what_the_document_says(case: Path) -> None:
    document = json.loads(documents.document("diagnosis", answer(case), host="", taken_at=""))["data"]
    said = Reader(case_page(case)).text

    def stands(text: str) -> bool:
        return " ".join(safe(text).split()) in said

    assert stands(document["verdict"].upper())
    cause = document["root_cause"]
    if cause is not None:
        words = ("id", "title", "cause", "action", "layer", "severity", "confidence")
        assert all(stands(cause[name]) for name in words)
        assert cause["address"] is None or stands(cause["address"])
        for proof in cause["evidence"]:
            assert stands(proof["text"]), proof
            assert stands(f"{proof['source']}:{proof['line']}" if proof["line"] else proof["source"])
    assert all(stands(layer["because"][:600]) for layer in document["layers"])
    assert all(stands(command) for command in document["collect_next"])
    assert all(stands(moment["text"].strip()[:300]) for moment in document["timeline"])
    assert stands(COMMAND)


@pytest.mark.parametrize("text", [hostile_page, crowded_page, unknown_page], ids=lambda made: made.__name__)
def test_nothing_a_log_says_becomes_markup(text: object) -> None:
    whole = text() if callable(text) else ""
    read = Reader(whole)
    assert read.problems == []
    names = {name for name, _ in read.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "link", "form", "base", "foreignobject", "b"}
    for name, attributes in read.tags:
        for attribute, value in attributes.items():
            assert not attribute.startswith("on"), (name, attribute)
            assert attribute not in ("src", "srcset", "action", "style", "xlink:href"), (name, attribute)
            assert attribute != "href" or str(value).startswith("#"), value
    assert whole.count("<style>") == whole.count("</style>") == 1
    assert "url(" not in whole[:whole.index("</style>")]


def test_controls_and_direction_overrides_are_made_visible() -> None:
    said = entities.unescape(hostile_page())
    assert not [char for char in said if char != "\n" and not char.isprintable()]
    assert r"\u202egnp.exe" in said
    assert r"\x1b]0;owned\x07" in said


def test_the_browser_is_told_to_load_and_run_nothing() -> None:
    metas = Reader(hostile_page()).all("meta")
    policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"@import|@font-face", hostile_page())


def test_a_huge_case_stays_small_and_says_what_was_left_out() -> None:
    text = crowded_page()
    assert len(text) < MOST_BYTES
    said = Reader(text).text
    assert re.search(r"and \d+ more: -o json", said)
    assert re.search(r"\d+ more lines that rules know were left out", said)
    assert "characters left out" in said


def test_the_page_has_landmarks_headings_and_names_for_its_pictures() -> None:
    read = Reader(demo_page())
    names = [name for name, _ in read.tags]
    assert [names.count(one) for one in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in read.tags:
        for name in (attributes.get("aria-labelledby") or "").split():
            assert name in ids
        if (attributes.get("href") or "").startswith("#"):
            assert str(attributes["href"])[1:] in ids
    for picture in read.all("svg"):
        hidden = picture.get("aria-hidden") == "true" or "mark" in str(picture.get("class")) or "cut" in str(
            picture.get("class"))
        assert hidden or picture.get("aria-labelledby"), picture


def test_the_demo_shows_the_way_down_to_the_card_and_the_walk() -> None:
    said = Reader(demo_page()).text
    assert "root port 0000:00:14.0 slot 4" in said
    assert re.search(r"card 0000:04:00\.0 +at fault", said)
    assert "slot 5 0000:00:15.0 empty" in said
    assert "bars fault 1 BAR has no address" in said


def test_a_switch_stands_between_its_root_port_and_its_cards() -> None:
    spots = (
        Spot(address="0000:00:01.0", kind="root port", on_path=True),
        Spot(address="0000:01:00.0", kind="upstream port", under="0000:00:01.0", on_path=True),
        Spot(address="0000:02:00.0", kind="downstream port", under="0000:01:00.0", slot="9", on_path=True),
        Spot(address="0000:02:01.0", kind="downstream port", under="0000:01:00.0", slot="10"),
        Spot(address="0000:03:00.0", kind="card", under="0000:02:00.0", on_path=True, verdict="fault"),
        Spot(address="0000:04:00.0", kind="card", under="0000:02:01.0", verdict="healthy"),
    )
    read = Reader(branches(spots))
    assert read.problems == []
    order = ["root port 0000:00:01.0", "upstream port 0000:01:00.0", "downstream port 0000:02:00.0 slot 9",
             "card 0000:03:00.0 at fault", "slot 10 0000:04:00.0 healthy"]
    places = [read.text.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    assert read.text.count("at fault") == 1


def test_a_filled_slot_that_nobody_asked_about_is_not_called_empty() -> None:
    said = Reader(_said("diagnose", "--root", "demo", "slot:2", "-o", "html")).text
    assert re.search(r"slot 1 0000:01:00\.0 +ready", said)
    assert "slot 5 0000:00:15.0 empty" in said


def test_where_nothing_is_known_of_the_topology_it_is_said() -> None:
    found, machine = found_in(("app.log", "CUDA error: no CUDA-capable device is detected\n"))
    assert "Nothing in the evidence tells where the cards are" in Reader(page(found, machine, COMMAND)).text


# --- to scale ------------------------------------------------------------------------------------------------------


def test_within_a_segment_places_are_in_proportion_to_time() -> None:
    (only,) = segments([0.0, 1.0, 4.0, 10.0])
    assert (only.left, only.width) == (0.0, 100.0)
    assert [only.x(at) for at in (0.0, 1.0, 4.0, 10.0)] == pytest.approx([0.0, 10.0, 40.0, 100.0])


def test_minutes_of_silence_are_cut_out_and_the_seconds_beside_them_stay_readable() -> None:
    times = [0.0, 0.1, 0.4, 600.0, 600.5, 601.0]
    first, second = segments(times)
    assert (first.first, first.last, second.first, second.last) == (0.0, 0.4, 600.0, 601.0)
    assert second.gap == pytest.approx(599.6)
    assert first.x(0.1) == pytest.approx(first.left + first.width / 4)
    assert second.x(600.5) == pytest.approx(second.left + second.width / 2)
    assert first.left + first.width < second.left
    assert min(first.width, second.width) > 20


def test_the_proof_of_the_root_cause_is_told_apart_first() -> None:
    steps = [0.0, 0.5, 1.0, 1.5, 2.0]
    proofs = [2.3, 2.301, 2.302]
    assert len(segments([*steps, *proofs])) == 1
    assert segments([*steps, *proofs], proofs)[-1].first == 2.3


def test_segments_cover_the_width_in_order_and_are_few() -> None:
    times = [base + n * 0.001 for base in (0, 10, 300, 5000, 90_000, 90_100, 400_000) for n in range(3)]
    parts = segments(times)
    assert len(parts) == 5
    assert parts[-1].left + parts[-1].width == pytest.approx(100.0)
    places = [next(part for part in parts if at <= part.last).x(at) for at in sorted(times)]
    assert places == sorted(places)


def test_a_single_moment_and_none_are_drawn_too() -> None:
    assert segments([]) == ()
    assert segments([5.0]) == (Segment(5.0, 5.0, 0.0, 100.0),)
    assert segments([5.0])[0].x(5.0) == 50.0


def test_the_picture_has_every_moment_at_its_place() -> None:
    lines = "".join(f"[{at:12.6f}] {NO_SPACE}\n" for at in (10.0, 11.0, 14.0, 20.0))
    found, _ = found_in(("dmesg.txt", lines))
    drawn = Reader(drawing(found.clocks[0], list(enumerate(found.timeline, 1)), CARD))
    marks = [svg["x"] for svg in drawn.all("svg") if str(svg.get("class")).startswith("mark")]
    assert marks == ["0.000%", "10.000%", "40.000%", "100.000%"]
    assert "10 s long" in drawn.text


def test_a_line_without_a_time_is_listed_and_not_drawn() -> None:
    found, machine = found_in(("app.log", "CUDA error: no CUDA-capable device is detected\n"))
    read = Reader(page(found, machine, COMMAND))
    assert "no time" in read.text
    assert not [svg for svg in read.all("svg") if svg.get("class") == "timeline"]


def test_moments_are_numbered_in_the_picture_as_in_the_list() -> None:
    moments = tuple(Moment(None, float(n), "k", n, "x", CARD, "m", after=n / 10) for n in range(30))
    found, _ = found_in(("dmesg.txt", f"[   10.000000] {NO_SPACE}\n"))
    drawn = Reader(drawing(found.clocks[0], list(enumerate(moments, 1)), CARD))
    labels = [label for label in drawn.text.split() if re.fullmatch(r"\d+(-\d+)?", label)]
    named = {number for label in labels for part in [label.split("-")] for number in range(
        int(part[0]), int(part[-1]) + 1)}
    assert named == set(range(1, 31))


@pytest.mark.parametrize(("seconds", "words"), [
    (0.0, "0 ms"), (0.0125, "12.5 ms"), (1.82, "1.82 s"), (59.96, "60 s"), (723.2, "12 min 3 s"), (3600.0, "1 h"),
    (183_600.0, "2 d 3 h"),
])
def test_a_span_is_said_as_people_say_it(seconds: float, words: str) -> None:
    assert lasted(seconds) == words


# --- the command ---------------------------------------------------------------------------------------------------


def test_only_diagnose_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["list"], ["probe", "slot:1"], ["drain", "--status"], ["watch"], ["diagnose", "--explain", "hw.x"]):
        assert run([*words, "-o", "html"]) == Exit.USAGE
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "a page shows one case" in captured.err


def test_the_exit_code_is_that_of_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "--from", "demo", "-o", "html"]) == Exit.FAULT
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_nothing_of_the_page_is_loaded_for_other_forms() -> None:
    code = ("import sys; from hotplugctl.__main__ import run; run(['diagnose', '--from', 'demo', '-o', 'json']); "
            "sys.exit('hotplugctl.output.html' in sys.modules or 'hotplugctl.output.sheet' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_redact_hides_names_and_serials_also_in_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "gpunode42-journal.txt"
    log.write_text(
        f"2026-03-02T08:10:01.000000+00:00 gpunode42 kernel: {NO_SPACE}\n"
        f"2026-03-02T08:10:02.000000+00:00 gpunode42 app[1]: CUDA error: no CUDA-capable device is detected; "
        f"serial number: QX99887766 on gpunode42\n")
    run(["diagnose", "--from", str(log), "-o", "html"])
    assert "gpunode42" in capsys.readouterr().out
    run(["diagnose", "--from", str(log), "--redact", "-o", "html"])
    said = capsys.readouterr().out
    assert "gpunode42" not in said
    assert "QX99887766" not in said
    assert str(tmp_path) not in said
    assert "hotplugctl diagnose --from FILE --redact -o html" in Reader(said).text


# --- looked at -----------------------------------------------------------------------------------------------------

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
# What is wider than the page, measured where it is laid out.
MEASURE = """<script>addEventListener("load", () => {
  const root = document.documentElement, wide = [...document.body.querySelectorAll("*")].filter(
    (one) => !one.closest("svg") && one.getBoundingClientRect().right > innerWidth + 1);
  const first = wide[0] ? wide[0].outerHTML.slice(0, 80) : "";
  parent.postMessage([innerWidth, root.scrollWidth, wide.length, first].join(" "), "*");
})</script>"""
# A browser's own window is never narrower than 500 pixels; a frame in it is.
FRAME = """<script>addEventListener("message", (told) => { document.body.dataset.seen = told.data; })</script>
<body style="margin: 0"><iframe src="%s" style="border: 0; width: %dpx; height: 900px"></iframe></body>"""


def chromium(tmp_path: Path, file: Path, width: int, *options: str) -> str:
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},900",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", *options, file.as_uri()],
        capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@pytest.mark.skipif(not BROWSER, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("made", [demo_page, hostile_page, crowded_page, unknown_page], ids=lambda made: made.__name__)
def test_nothing_is_wider_than_the_window(made: object, width: int, tmp_path: Path) -> None:
    text = made() if callable(made) else ""
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)
    assert policy is not None
    file = tmp_path / "measured.html"
    file.write_text(text.replace(policy[0], "").replace("</body>", f"{MEASURE}</body>"))
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME % (file.name, width))
    seen = re.search(r'data-seen="([^"]*)"', chromium(tmp_path, frame, 1400, "--dump-dom"))
    assert seen is not None
    inner, scroll, wide, *first = seen[1].split(" ", 3)
    assert int(inner) == width
    assert int(scroll) <= width
    assert int(wide) == 0, first


@pytest.mark.skipif(not BROWSER, reason="no Chromium here: apt-get install chromium")
def test_the_page_is_rendered_as_a_picture_and_runs_nothing(tmp_path: Path) -> None:
    file, picture = tmp_path / "case.html", tmp_path / "case.png"
    file.write_text(hostile_page())
    chromium(tmp_path, file, 1280, f"--screenshot={picture}")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture.read_bytes()[16:20], "big") == 1280
    assert "<script" not in chromium(tmp_path, file, 1280, "--dump-dom")
