"""The five commands: parse, call one function, render one value. The only file that prints or exits."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import Exit, HotplugError
from .options import Color, Common, Output, size, verb

if TYPE_CHECKING:
    from .host import Host
    from .model import Device, Machine
    from .output.tables import Table
    from .probe import Look

VERBS = ("list", "probe", "watch", "drain", "diagnose")
EXIT_LINES = "\n".join(f"  {int(code):>3}  {code.name.lower():<12} {code.meaning}" for code in Exit)


def _epilog(*examples: str) -> str:
    lines = "\n".join(f"  {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n\b\nExit codes:\n{EXIT_LINES}"


app = typer.Typer(
    help="See, watch, drain and diagnose PCIe accelerators that come and go while the machine runs.",
    rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_epilog("hotplugctl                  the accelerators here, and one line on their health",
                   "hotplugctl diagnose         why something is not ready"),
)

Devices = Annotated[list[str] | None, typer.Argument(
    metavar="[DEVICE]...", help="PCI address, slot:NAME, node, serial, UUID, or all.")]
Vendor = Annotated[list[str] | None, typer.Option("--vendor", help="Only this vendor profile (repeatable).")]
StateIs = Annotated[list[str] | None, typer.Option("--state", help="Only devices in this state (repeatable).")]
SlotIs = Annotated[list[str] | None, typer.Option("--slot", help="Only this slot (repeatable).")]
Numa = Annotated[list[int] | None, typer.Option("--numa", help="Only this NUMA node (repeatable).")]
Label = Annotated[list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with this label.")]
Capture = Annotated[str | None, typer.Option(
    "--capture", metavar="PATH", help="Also write what was read as a bundle: a directory, or a .tar.gz file.")]
Keep = Annotated[bool, typer.Option("--keep-identifiers", help="Do not redact the captured bundle.")]


@app.callback()
def _main() -> None:
    pass


@app.command("list", epilog=_epilog("hotplugctl list --slots", "hotplugctl list --state failed -o json"))
@verb
def list_(
    common: Common, devices: Devices = None,
    slots: Annotated[bool, typer.Option("--slots", help="The slots, filled and empty, instead of devices.")] = False,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Which columns to show.")] = None,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, and virtual functions too.")] = False,
    all_pci: Annotated[bool, typer.Option("--all-pci", help="Every PCI function but bridges.")] = False,
    handshake: Annotated[bool, typer.Option("--handshake", help="Run each card's health check first.")] = False,
    expect: Annotated[str | None, typer.Option(metavar="FILE", help="Compare with what should be here.")] = None,
    save_expect: Annotated[str | None, typer.Option(metavar="FILE", help="Write what is here as that file.")] = None,
    show_config: Annotated[bool, typer.Option("--show-config", help="The settings, and where each is from.")] = False,
    vendor: Vendor = None, state: StateIs = None, slot: SlotIs = None, numa: Numa = None, label: Label = None,
    summary: Annotated[bool, typer.Option("--summary", hidden=True)] = False,
) -> Exit:
    """List accelerators and where each stands."""
    from . import expectation, probe, select
    from .output import views

    shown = views.columns(columns, wide=wide)
    seen = _look(common)
    if show_config:
        return _show_config(common, seen)
    filters = select.Filters(vendor or (), state or (), slot or (), numa or (), label or ())
    select.check_filters(filters, {p.id: p.name for p in seen.profiles})
    with _progress(common, "reading the PCI bus"):
        machine = probe.machine(seen, all_pci=all_pci, wide=wide, rooms=slots)
        if handshake:
            machine = probe.shaken(seen, machine)
    chosen = select.choose(machine, devices or (), filters)
    if slots:
        named = {*chosen.slots, *(d.slot for d in chosen.devices)}
        found = [s for s in machine.slots if not devices or s.name in named]
        _show(common, "slots", found, lambda: views.slots(found), machine, row="slot")
        if not found:
            _hint(common, "the kernel knows no slots here (is pciehp or acpiphp active?)")
        return Exit.OK
    if save_expect is not None:
        expectation.save(save_expect, chosen.devices)
        _hint(common, f"wrote what is here to {save_expect}")
    differs = expectation.differences(save_expect or expect, chosen.devices) if expect else ()
    notes = [*differs, *([views.health(chosen.devices)] if summary and chosen.devices else [])]
    _show(common, "devices", chosen.devices, lambda: views.devices(chosen.devices, shown, notes), machine,
          row="device", **({"differences": differs} if expect else {}))
    if not chosen.devices:
        _hint(common, _nothing_here(machine, filters != select.Filters()))
    return Exit.FAULT if differs else Exit.OK


def _nothing_here(machine: Machine, filtered: bool) -> str:
    if filtered and machine.devices:
        return f"none of the {len(machine.devices)} accelerators here passes the filters"
    return "no accelerator here; every PCI device: hotplugctl list --all-pci"


@app.command(epilog=_epilog("hotplugctl probe slot:3", "hotplugctl probe 3b:00.0 --capture card.tar.gz"))
@verb
def probe(
    common: Common,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="PCI address, slot:NAME, node, serial or UUID.")],
    capture: Capture = None, keep_identifiers: Keep = False,
    handshake: Annotated[bool, typer.Option("--handshake", help="Run the card's health check first.")] = False,
    hex: Annotated[bool, typer.Option("--hex", help="Config space as lspci -xxxx prints it.")] = False,
    fits: Annotated[str | None, typer.Option(metavar="SIZE[,SIZE...]", help="Would BARs of this size fit?")] = None,
    locate: Annotated[str | None, typer.Option(metavar="on|off", help="The slot's attention indicator.")] = None,
) -> Exit:
    """Show everything about one device or slot."""
    from . import probe as probing
    from . import select
    from .output import views

    sizes = tuple(size(text, "--fits") for text in fits.split(",")) if fits else ()
    seen = _look(common, capture=capture, keep=keep_identifiers)
    with _progress(common, "reading the device"):
        machine = probing.machine(seen, all_pci=True, close=capture is not None)
        if handshake:
            machine = probing.shaken(seen, machine)
        chosen = select.choose(machine, (device,), select.Filters())
        found = probing.details(seen, chosen.devices, chosen.slots, sizes)
    if locate is not None:
        from . import locating

        locating.locate(seen.host, found, locate)
        _hint(common, f"the attention indicator is {'blinking' if locate == 'on' else 'off'}")
        return Exit.OK
    if capture is not None:
        _save(common, seen.host, capture, probing.kept(seen))
    if hex:
        _print("".join(probing.hex_dumps(seen, found)))
        return Exit.OK
    _show_each(common, found, views.probed, machine)
    return Exit.OK


@app.command(epilog=_epilog("hotplugctl watch", "hotplugctl watch slot:3 --until ready --timeout 20s -o jsonl"))
@verb
def watch(
    common: Common, devices: Devices = None,
    until: Annotated[str | None, typer.Option(metavar="STATE", help="End when the devices are at STATE.")] = None,
    count: Annotated[int | None, typer.Option(metavar="N", help="End after N changes.")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="D", help="Give up after this time (exit 6).")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="D", help="End after this time (exit 0).")] = None,
    exec_: Annotated[str | None, typer.Option("--exec", metavar="CMD", help="Run CMD for every change.")] = None,
    sink: Annotated[list[str] | None, typer.Option(metavar="URL", help="Send changes there too (repeatable).")] = None,
    batch: Annotated[str | None, typer.Option(metavar="D", help="Gather changes for this time.")] = None,
    record: Annotated[str | None, typer.Option(metavar="FILE", help="Write the run for --replay.")] = None,
    replay: Annotated[str | None, typer.Option(metavar="FILE", help="Play a recorded run.")] = None,
    source: Annotated[str, typer.Option(metavar="auto|udev|kernel", help="Where events come from.")] = "auto",
    metrics_file: Annotated[str | None, typer.Option(metavar="PATH", help="Prometheus textfile.")] = None,
    labels_file: Annotated[str | None, typer.Option(metavar="PATH", help="Labels for node-feature-discovery.")] = None,
    vendor: Vendor = None, state: StateIs = None, slot: SlotIs = None, numa: Numa = None, label: Label = None,
) -> Exit:
    """Follow devices as they come and go (not there yet)."""
    raise _not_yet("watch", "hotplugctl list, again and again, shows where each device stands")


@app.command(epilog=_epilog("hotplugctl drain slot:3 --dry-run", "hotplugctl drain 3b:00.0 --timeout 10m --power-off"))
@verb
def drain(
    common: Common, devices: Devices = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    timeout: Annotated[str | None, typer.Option(metavar="D", help="Wait this long for the work to end.")] = None,
    grace: Annotated[str, typer.Option(metavar="D", help="Between asking a holder and killing it.")] = "10s",
    stop_holders: Annotated[bool, typer.Option("--stop-holders", help="Ask holders to end, then kill.")] = False,
    scheduler: Annotated[str, typer.Option(metavar="auto|none|slurm|kubernetes", help="Who places work.")] = "auto",
    scope: Annotated[str, typer.Option(metavar="device|node", help="What the scheduler drains.")] = "device",
    remove: Annotated[bool, typer.Option("--remove", help="Take it off the bus too.")] = False,
    power_off: Annotated[bool, typer.Option("--power-off", help="Switch the slot off too.")] = False,
    group: Annotated[bool, typer.Option("--group", help="With the cards that go with it.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Guide the exchange of the card.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Drains in progress.")] = False,
    vendor: Vendor = None, state: StateIs = None, slot: SlotIs = None, numa: Numa = None, label: Label = None,
) -> Exit:
    """Take a device out of service without losing work (not there yet)."""
    raise _not_yet("drain", "nothing was changed; drain it with the vendor's tool")


def _not_yet(name: str, hint: str) -> HotplugError:
    return HotplugError(f"{name} is not there yet", why="this version has list, probe and diagnose", hint=hint,
                        exit=Exit.USAGE)


@app.command(epilog=_epilog("hotplugctl diagnose slot:3", "hotplugctl diagnose --from dmesg.txt --from lspci.txt"))
@verb
def diagnose(
    common: Common, devices: Devices = None,
    from_: Annotated[list[str] | None, typer.Option(
        "--from", metavar="PATH", help="Evidence: a bundle, dmesg or lspci text, logs (repeatable; one case).")] = None,
    since: Annotated[str | None, typer.Option(metavar="D", help="Only log lines this recent.")] = None,
    fail_on: Annotated[str, typer.Option(metavar="SEVERITY", help="Exit 1 from this severity on.")] = "warning",
    explain: Annotated[str | None, typer.Option(metavar="RULE|CAUSE", help="What it means and how it is told.")] = None,
    capture: Capture = None, keep_identifiers: Keep = False,
    vendor: Vendor = None, state: StateIs = None, slot: SlotIs = None, numa: Numa = None, label: Label = None,
) -> Exit:
    """Say at which layer a hot-plug failed, why, the proof, and what to do next."""
    raise NotImplementedError


# --- shared by the commands ----------------------------------------------------------------------------------------


def _look(common: Common, *, capture: str | None = None, keep: bool = False) -> Look:
    """The machine that --root names, its settings and profiles."""
    from . import config, probe
    from .host.opening import open_host
    from .rules import load

    settings = config.settings(common.config)
    host: Host = open_host(common.root)
    profiles = probe.profiles_of(host) or load.profiles(config.authored("vendors.d"))
    redact = common.redact or (capture is not None and not keep)
    if redact and not host.redacted:
        from .host.redact import Redacted, redactor_for

        host = Redacted(host, redactor_for(host))
    if capture is not None:
        from .host.recorder import Recorder
        from .output.documents import TOOL

        host = Recorder(host, TOOL)
    return probe.look(host, settings, profiles)


def _save(common: Common, host: Host, dest: str, extra: dict[str, Any]) -> None:
    from .host.recorder import Recorder
    from .probe import superset

    if isinstance(host, Recorder):
        superset(host)
        host.save(dest, extra)
        words = "serials, UUIDs and names are aliases" if host.redacted else "NOT redacted"
        _hint(common, f"wrote {dest} ({words})")


def _show_config(common: Common, seen: Look) -> Exit:
    from . import config
    from .output.tables import Column, Row, Table

    rows = config.shown(seen.settings)
    columns = (Column("SETTING"), Column("VALUE", wraps=True), Column("FROM"))
    if common.form in (Output.json, Output.jsonl):
        import json

        _print(json.dumps([{"setting": a, "value": b, "from": c} for a, b, c in rows], indent=2) + "\n")
    else:
        _table(common, Table(columns, tuple(Row(row) for row in rows)))
    return Exit.OK


def _show(
    common: Common, schema: str, data: Sequence[Any], table: Any, machine: Machine, row: str, **more: Any
) -> None:
    """One value in the form asked for."""
    from .output import documents

    if common.form is Output.json:
        _print(documents.document(
            schema, data, host=machine.host, taken_at=machine.taken_at, gaps=machine.gaps, **more))
    elif common.form is Output.jsonl:
        _print(documents.lines(row, data))
    else:
        _table(common, table())


def _show_each(common: Common, found: Sequence[Device], page: Any, machine: Machine) -> None:
    from .output import documents

    if common.form is Output.json:
        data: Any = found[0] if len(found) == 1 else list(found)
        _print(documents.document(
            "device", data, host=machine.host, taken_at=machine.taken_at, gaps=machine.gaps))
    elif common.form is Output.jsonl:
        _print(documents.lines("device", found))
    else:
        for number, device in enumerate(found):
            if number:
                _print("\n")
            _table(common, page(device))


def _table(common: Common, table: Table) -> None:
    from .output.tables import render

    terminal = sys.stdout.isatty()
    form = common.form.value if common.form is not Output.auto else "table" if terminal else "plain"
    width = os.get_terminal_size(sys.stdout.fileno()).columns if terminal else None
    _print(render(table, form, width=width or None, color=_colored(common)))


def _colored(common: Common) -> bool:
    """--color, then NO_COLOR and FORCE_COLOR (no-color.org), then whether it is a terminal."""
    if common.color is not Color.auto:
        return common.color is Color.always
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _print(text: str) -> None:
    sys.stdout.write(text)


def _hint(common: Common, text: str) -> None:
    from .output.tables import safe

    if not common.quiet:
        sys.stderr.write(f"hotplugctl: {safe(text)}\n")


@contextmanager
def _progress(common: Common, what: str) -> Iterator[None]:
    """Say at a terminal what takes longer than a second."""
    if common.quiet or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(1.0, lambda: sys.stderr.write(f"{what} ...\r"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if not timer.is_alive():
            sys.stderr.write("\x1b[K")


# --- the way in and out --------------------------------------------------------------------------------------------

# typer's own names for what a wrong command line raises: BadParameter is a UsageError is a ClickException.
_USAGE: Any = typer.BadParameter.__mro__[1]
_JSON = ("json", "jsonl")


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Errors become one sentence, and a document under -o json."""
    words = _verb_first(list(argv))
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _guarded(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader had enough: that is success. Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _verb_first(words: list[str]) -> list[str]:
    """Common options may stand before the verb; without a verb it is `list` with one line on health."""
    at = next((n for n, word in enumerate(words) if word in VERBS), None)
    leading = words[:at] if at is not None else words
    if at is not None and all(word.startswith("-") for word in leading[:1]):
        return [words[at], *leading, *words[at + 1:]]
    if words and (not words[0].startswith("-") or words[0] in ("-h", "--help")):
        return words
    return ["list", "--summary", *words]


def _terminate(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _guarded(words: list[str]) -> int:
    try:
        return int(app(words, standalone_mode=False, prog_name="hotplugctl") or 0)
    except HotplugError as error:
        return _failed(words, error)
    except _USAGE as error:
        return _failed(words, _usage(words, error))
    except (KeyboardInterrupt, typer.Abort):
        return _failed(words, HotplugError("interrupted", exit=Exit.INTERRUPTED))
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, the person gets one sentence and the way to more
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        return _failed(words, HotplugError(
            "an unexpected error in hotplugctl", why=f"{type(error).__name__}: {error}",
            hint="run it again with --debug, and send what it prints", exit=Exit.BUG))


def _usage(words: list[str], error: Any) -> HotplugError:
    known = words[0] if words and words[0] in VERBS else ""
    why = error.format_message().rstrip(".")
    return HotplugError("wrong usage", why=why, hint=f"hotplugctl {known} --help".replace("  ", " "), exit=Exit.USAGE)


def _failed(words: list[str], error: HotplugError) -> int:
    from .output import documents
    from .output.tables import safe

    asks_json = "--json" in words or any(
        word in (f"-o{form}", f"--output={form}") or (word == form and before in ("-o", "--output"))
        for before, word in zip(["", *words], words, strict=False) for form in _JSON
    ) or os.environ.get("HOTPLUGCTL_OUTPUT") in _JSON
    if asks_json:
        sys.stdout.write(documents.error(error))
    text = str(error) + (f". Try: {error.hint}" if error.hint else "")
    sys.stderr.write("\n".join(safe(line) for line in f"hotplugctl: {text}".splitlines()) + "\n")
    return error.exit
