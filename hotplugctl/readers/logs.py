"""Log text -> LogLine: the forms in which kernel, journal, runtime and application logs are kept and sent around.

Forms are rows of a table, tried line by line (files are cut, pasted and mixed). A line of no known form is kept as it
is. Only the form is taken off; escapes and control characters stay data, made visible where they are printed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from ..host import Host
from ..model import LogLine, Maybe
from .encodings import decode, without_controls
from .located import FULL, located, normal

KERNEL = "/dev/kmsg"
JOURNAL = "journal"                     # the Host's name for the kernel's lines of this boot in the journal
JOURNAL_SOURCE = "journalctl -k"

# Numbers have bounds: what is longer is no time, and Python refuses it or makes it infinite.
_KMSG = re.compile(r"(?P<prio>\d{1,10}),\d{1,20},(?P<usec>\d{1,20}),[^;]{0,40};(?P<text>.*)")
_MONOTONIC = re.compile(
    r"(?:<(?P<prio>\d{1,3})>)?(?:(?P<facility>[a-z]+\d?) *:(?P<level>[a-z]+) *: )?"
    r"\[ *(?P<monotonic>\d{1,15}\.\d{1,12})\](?: ?\[ *[TC]\d+\])? ?(?:(?P<host>[\w.-]+) kernel: )?(?P<text>.*)"
)
# A console that lost its line ends has one message behind the other: the stamps tell them apart.
_STAMP = re.compile(r"\[ *(\d{1,15}\.\d{6})\] ")
_CTIME = re.compile(
    r"(?:(?P<facility>[a-z]+\d?) *:(?P<level>[a-z]+) *: )?"
    r"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d\d?) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})\] ?"
    r"(?P<text>.*)"
)
_ISO_TIME = (
    r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_JOURNAL_ISO = re.compile(
    _ISO_TIME + r" (?P<host>[\w.-]+) (?P<tag>[\w./@-]+(?:\[\d+\])?): (?P<text>.*)"
)
_JOURNAL = re.compile(
    r"(?P<month>[^\W\d_]{3,9}\.?|\d{1,2}\N{CJK UNIFIED IDEOGRAPH-6708}) +(?P<day>\d\d?) "
    r"(?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))? (?P<host>[\w.-]+) (?P<tag>[\w./@-]+(?:\[\d+\])?): (?P<text>.*)"
)
_DMESG_ISO = re.compile(
    r"(?:(?P<facility>[a-z]+\d?) *:(?P<level>[a-z]+) *: )?"
    r"(?P<date>\d{4}-\d\d-\d\d)T(?P<clock>\d\d:\d\d:\d\d),(?P<fraction>\d+)(?P<zone>[+-]\d\d:?\d\d) (?P<text>.*)"
)
# A guest's kernel line as its runtime logs it: `level=info msg="[   67.480726] pci 0000:00:06.0: ...\\n"`.
_LOGFMT = re.compile(
    r'(?:time="?[^" ]{1,40}"? )?level=\w+ msg="\[ *(?P<monotonic>\d{1,15}\.\d{1,12})\] (?P<text>.*?)(?:\\n)?"(?: .*)?'
)
# Runtime and application logs keep their own prefix in the text; only the time is read from it.
_STAMPED = re.compile(
    r"(?P<text>\[?(?:time=\"?)?(?:\[?\w+\]? \S{0,80}?:)?" + _ISO_TIME.replace("[T ]", "[T -]") + r".*)")

_MONTHS = {
    "Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11,
    "Dec": 12,
}
# Abbreviated months of other locales, as glibc has them (de, fr, es, it, pt), without their full stops.
_MONTHS.update({
    name: number for number, names in enumerate((
        "janv ene gen jan", "f\u00e9vr feb fev", "mars M\u00e4r M\u00e4rz mar", "avril abr apr", "mai Mai may mag",
        "juin Juni jun giu", "juil Juli jul lug", "ao\u00fbt ago", "sept sep set Sept", "oct Okt ott out", "nov",
        "d\u00e9c dic Dez dez",
    ), 1) for name in names.split()
})
# journalctl in a Chinese locale writes the month's number and its ideograph.
_MONTHS.update({f"{number}\N{CJK UNIFIED IDEOGRAPH-6708}": number for number in range(1, 13)})
_LEVELS = {name: i for i, name in enumerate(("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"))}

# What a line of each form begins with, so that most forms are not tried on most lines.
FORMS: tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("monotonic", _MONOTONIC, lambda c: c in "[<" or c.islower()),
    ("kmsg", _KMSG, str.isdigit),
    ("dmesg-iso", _DMESG_ISO, lambda c: c.isdigit() or c.islower()),
    ("journal-iso", _JOURNAL_ISO, str.isdigit),
    ("ctime", _CTIME, lambda c: c == "[" or c.islower()),
    ("journal", _JOURNAL, str.isalnum),
    ("logfmt", _LOGFMT, lambda c: c in "lt"),
    ("stamped", _STAMPED, lambda c: c == "[" or c.isalnum()),
)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_QUOTED = re.compile(r"^(?:> ?)+")        # a log out of a mail
_ESCAPED = re.compile(r"(?:\\x[0-9a-fA-F]{2})+")


@dataclass(frozen=True, slots=True)
class LogText:
    """A log read: its lines, the host names in them, and how many lines had a form of the kernel log or journal."""

    lines: tuple[LogLine, ...]
    hosts: tuple[str, ...]
    kernel: int


def kernel(host: Host) -> Maybe[tuple[LogLine, ...]]:
    """The kernel log of a machine; Unknown when it may not be read or was not captured."""
    text = host.log("kernel")
    return read_log(text, KERNEL) if isinstance(text, str) else text


def read_log(content: str | bytes, source: str) -> tuple[LogLine, ...]:
    """The lines of a log in any of the known forms; never raises, whatever the bytes."""
    return parse_log(content, source).lines


def parse_log(content: str | bytes, source: str) -> LogText:
    """As `read_log`, and what else the text tells."""
    text = decode(content) if isinstance(content, bytes) else content
    text = without_controls(text)
    records = _json_document(text)
    if records is not None:
        found, hosts = _from_json(enumerate(records, 1), source)
        return LogText(tuple(found), tuple(hosts), len(found))
    return parse_lines(enumerate(text.replace("\r\n", "\n").split("\n"), 1), source)


def parse_lines(numbered: Iterable[tuple[int, str]], source: str) -> LogText:
    """As `parse_log`, of lines with their numbers, some of which may have been left out."""
    return _from_text(numbered, source)


def _from_text(numbered: Iterable[tuple[int, str]], source: str) -> LogText:
    lines: list[LogLine] = []
    hosts: dict[str, None] = {}
    kernel, last, formed = 0, "", False
    for number, raw in numbered:
        if raw[:1] == ">":
            raw = _QUOTED.sub("", raw)
        if not raw.strip():
            continue
        if raw.lstrip(" \t")[0] == "{" and (record := _json_line(raw)) is not None:
            found, named = _from_json(((number, record),), source)
            lines.extend(found)
            hosts.update(named)
            kernel, last, formed = kernel + len(found), "json", False
            continue
        if last == "kmsg" and raw[0] == " " and "=" in raw:
            lines[-1] = _about(lines[-1], raw.strip())
            continue
        name, match = _form(raw, last)
        if match is None and raw[0] in " \t":       # pasted with an indent; what only has a date may be part of another
            name, match = _form(raw.lstrip(" \t"), last)
            match = match if name != "stamped" else None
        if match is None:
            # A printk of several lines has one stamp: what follows belongs to the line above it.
            above = lines[-1] if formed and raw[0] in " \t" and lines else None
            formed, last = above is not None, last if above else ""
            line = located(LogLine(source, number, raw.strip() if above else raw.rstrip()))
            if above is not None:
                line = replace(line, monotonic=above.monotonic, time=above.time, priority=above.priority)
                _share(lines, line)
            else:
                lines.append(line)
            continue
        last, formed = name, name != "stamped"
        kernel += formed
        caught = match.groupdict()
        if caught.get("host"):
            hosts.setdefault(caught["host"])
        lines.extend(_of_form(name, caught, source, number))
    return LogText(tuple(lines), tuple(hosts), kernel)


def _form(raw: str, last: str) -> tuple[str, re.Match[str] | None]:
    first = raw[0]
    for name, pattern, begins in FORMS:
        if name == last or begins(first):
            match = pattern.fullmatch(raw)
            if match is not None:
                return name, match
    return "", None


def _share(lines: list[LogLine], line: LogLine) -> None:
    """Put a continuation after its first line; whichever of them names the device names it for both."""
    above = lines[-1]
    if above.address is None and line.address is not None:
        lines[-1] = replace(above, address=line.address)
    elif line.address is None:
        line = replace(line, address=above.address, slot=line.slot or above.slot)
    lines.append(line)


def _of_form(name: str, caught: Mapping[str, str | None], source: str, number: int) -> Iterator[LogLine]:
    text = caught["text"] or ""
    tag = caught.get("tag")
    if tag and not tag.startswith("kernel"):
        text = f"{tag}: {text}"
    monotonic = float(caught["monotonic"] or 0) if caught.get("monotonic") else None
    priority = _LEVELS.get(caught.get("level") or "")
    if caught.get("prio"):
        priority = int(caught["prio"] or 0) & 7
    if name == "kmsg":
        monotonic = int(caught["usec"] or 0) / 1e6
        text = unescape(text)
    time, host = _time(caught), caught.get("host")
    for at, piece in _apart(text, monotonic) if name == "monotonic" and _STAMP.search(text) else ((monotonic, text),):
        for part in piece.split("\n"):
            yield located(LogLine(source, number, part.rstrip("\r"), at, time, priority, host=host))


def _apart(text: str, monotonic: float | None) -> Iterator[tuple[float | None, str]]:
    """The messages of a line that holds several, each with its stamp."""
    first, *more = _STAMP.split(text)
    if not first:       # stamped twice
        _, first, *more = more
    yield monotonic, first.rstrip(" ")
    for stamp, message in zip(more[::2], more[1::2], strict=True):
        yield float(stamp), message.rstrip(" ")


def _time(caught: Mapping[str, str | None]) -> str | None:
    """ISO 8601 of what a form caught; without a year in its truncated form, `--03-02T08:10:01`."""
    clock = caught.get("clock")
    if clock is None:
        return None
    if caught.get("month"):
        month = _MONTHS.get((caught["month"] or "").rstrip("."))
        if month is None:
            return None
        date = f"{caught['year']}-" if caught.get("year") else "--"
        return f"{date}{month:02d}-{int(caught['day'] or 0):02d}T{clock}"
    fraction = f".{(caught.get('fraction') or '')[:6]:0<6}" if caught.get("fraction") else ""
    zone = (caught.get("zone") or "").replace("Z", "+00:00")
    if len(zone) == 5:
        zone = f"{zone[:3]}:{zone[3:]}"
    return f"{caught['date']}T{clock}{fraction}{zone}"


def unescape(text: str) -> str:
    r"""`\x1b` of a /dev/kmsg record as the character it stands for (the kernel escapes all but printable ASCII)."""
    return _ESCAPED.sub(lambda run: decode(bytes.fromhex(run[0].replace("\\x", ""))), text)


def _about(line: LogLine, pair: str) -> LogLine:
    """A record's `DEVICE=+pci:0000:3b:00.0`: the kernel itself says which device its line is about."""
    if pair.startswith("DEVICE=+pci:"):
        address = pair.removeprefix("DEVICE=+pci:")
        if FULL.fullmatch(address):
            return replace(line, address=normal(address))
    return line


def _json_document(text: str) -> list[Mapping[str, Any]] | None:
    """The objects of `dmesg -J`, or the one object that the text is; None when it is neither."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return None
    inner = whole.get("dmesg", [whole] if _has_message(whole) else None)
    return [record for record in inner if isinstance(record, dict)] if isinstance(inner, list) else None


def _has_message(record: Mapping[str, Any]) -> bool:
    return "MESSAGE" in record or "msg" in record


def _json_line(raw: str) -> Mapping[str, Any] | None:
    """The object of a line of `journalctl -o json`; None where it is none, or has no message."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _has_message(record) else None


def _from_json(records: Iterable[tuple[int, Mapping[str, Any]]], source: str) -> tuple[list[LogLine], dict[str, None]]:
    """The lines, and the host names in them."""
    lines: list[LogLine] = []
    hosts: dict[str, None] = {}
    for number, record in records:
        message = record.get("msg", record.get("MESSAGE", ""))
        if isinstance(message, list):        # journald gives bytes that are no UTF-8 as a list of numbers
            message = decode(bytes(b & 0xFF for b in message if isinstance(b, int)))
        if not isinstance(message, str):
            continue
        message = without_controls(message)
        tag, pid = _word(record.get("SYSLOG_IDENTIFIER", "kernel")), _word(record.get("_PID"))
        text = message if tag == "kernel" else f"{tag}[{pid}]: {message}"
        host = record.get("_HOSTNAME")
        if isinstance(host, str):
            hosts.setdefault(host)
        stamp = _number(record.get("time"))
        if stamp is None:
            usec = _number(record.get("_SOURCE_MONOTONIC_TIMESTAMP", record.get("__MONOTONIC_TIMESTAMP")))
            stamp = usec / 1e6 if usec is not None else None
        priority = _number(record.get("pri", record.get("PRIORITY")))
        for part in text.split("\n"):
            bare = _QUOTED.sub("", part).lstrip(" \t") if stamp is None else ""
            name, inner = _form(bare, "") if bare else ("", None)
            if inner is not None and name != "stamped":      # JSON around the line of a log
                lines.extend(_of_form(name, inner.groupdict(), source, number))
                continue
            level = int(priority) & 7 if priority else None
            line = located(LogLine(source, number, part, stamp, _of_epoch(record), level,
                                   host=host if isinstance(host, str) else None))
            device = record.get("_KERNEL_DEVICE")
            lines.append(_about(line, f"DEVICE={device}") if isinstance(device, str) else line)
    return lines, hosts


def _of_epoch(record: Mapping[str, Any]) -> str | None:
    """When the journal says that a record was written, in UTC."""
    usec = _number(record.get("_SOURCE_REALTIME_TIMESTAMP", record.get("__REALTIME_TIMESTAMP")))
    try:
        return None if usec is None else (_EPOCH + timedelta(microseconds=usec)).isoformat(timespec="microseconds")
    except OverflowError:
        return None


def _word(value: Any) -> str:
    """A name or number; `?` for what is neither (a list may be nested deeper than can be printed)."""
    return str(value) if isinstance(value, (str, int)) else "?"


def _number(value: Any) -> float | None:
    """A number that may be a time, else None."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 1e18 else None
