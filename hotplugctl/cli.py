"""The five commands: parse, call one function, render one value."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from . import show
from .errors import Exit, HotplugError
from .options import Common, Output, duration, size, verb

if TYPE_CHECKING:
    from .diagnose import Explanation
    from .look import Look
    from .model import Machine
    from .select import Filters

VERBS = ("list", "probe", "watch", "drain", "diagnose")
EXIT_LINES = "\n".join(
    textwrap.fill(code.meaning, 76, initial_indent=f"  {int(code):>3}  {code.name.lower():<12} ",
                  subsequent_indent=" " * 20)
    for code in Exit
)


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
Vendor = Annotated[list[str] | None, typer.Option(
    "--vendor", metavar="PROFILE", help="Only this vendor profile (repeatable).")]
StateIs = Annotated[list[str] | None, typer.Option(
    "--state", metavar="STATE", help="Only devices in this state (repeatable).")]
SlotIs = Annotated[list[str] | None, typer.Option("--slot", metavar="NAME", help="Only this slot (repeatable).")]
Numa = Annotated[list[int] | None, typer.Option("--numa", metavar="NODE", help="Only this NUMA node (repeatable).")]
Label = Annotated[list[str] | None, typer.Option(
    "--label", metavar="KEY=VALUE", help="Only with this label (repeatable).")]
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
    from . import expectation, health, probe, select
    from .output import views

    if show_config:
        return _show_config(common)
    shown = views.columns(columns, wide=wide)
    if slots and (columns or expect or save_expect or handshake):
        raise HotplugError("wrong usage", why="--columns, --expect, --save-expect and --handshake are of devices",
                           hint="leave --slots out", exit=Exit.USAGE)
    filters = select.Filters(vendor or (), state or (), slot or (), numa or (), label or ())
    seen = _look(common, filters)
    with show.progress(common, "reading the PCI bus"):
        machine = probe.machine(seen, all_pci=all_pci, wide=wide, rooms=slots)
        chosen = select.choose(machine, devices or (), filters)
        if handshake:
            machine = health.shaken(seen, machine, chosen.devices)
            chosen = select.choose(machine, devices or (), filters)
    if slots:
        found = select.slots(machine, chosen, filters, named=bool(devices))
        show.rows(common, ("slots", "slot"), found, lambda: views.slots(found), machine)
        if not found:
            show.hint(common, "the kernel knows no slots here (is pciehp or acpiphp active?)")
        return Exit.OK
    if save_expect is not None:
        expectation.save(save_expect, chosen.devices)
        show.hint(common, f"wrote what is here to {save_expect}")
    differs = expectation.differences(save_expect or expect, chosen.devices) if expect else ()
    for difference in differs:
        show.hint(common, difference)
    notes = [views.health(chosen.devices)] if summary and chosen.devices else []
    show.rows(
        common, ("devices", "device"), chosen.devices, lambda: views.devices(chosen.devices, shown, notes), machine,
        **({"differences": differs} if expect else {}),
    )
    if not chosen.devices:
        show.hint(common, _nothing_here(machine, chosen.slots, filters != select.Filters()))
    return Exit.FAULT if differs else Exit.OK


def _nothing_here(machine: Machine, empty: tuple[str, ...], filtered: bool) -> str:
    if empty:
        return f"slot {', '.join(empty)} is empty; what it can take: hotplugctl probe slot:{empty[0]}"
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
    from . import capture as capturing
    from . import health, locating, select
    from . import probe as probing
    from .output import views

    sizes = tuple(size(text, "--fits") for text in fits.split(",")) if fits else ()
    seen = _look(common, capture=capture, keep=keep_identifiers)
    with show.progress(common, "reading the device"):
        machine = probing.machine(seen, all_pci=True, close=capture is not None)
        chosen = select.choose(machine, (device,), select.Filters())
        if handshake:
            machine = health.shaken(seen, machine, chosen.devices)
            chosen = select.choose(machine, (device,), select.Filters())
        found = probing.details(seen, chosen.devices, chosen.slots, sizes)
    if locate is not None:
        locating.locate(seen.host, found, locate)
        show.hint(common, f"the attention indicator is {'blinking' if locate == 'on' else 'off'}")
        return Exit.OK
    if capture is not None:
        show.hint(common, capturing.save(seen, capture))
    if hex:
        show.out("".join(probing.hex_dumps(seen, found)))
        return Exit.OK
    data = found[0] if len(found) == 1 else found
    show.value(common, "device", data, lambda: [views.probed(one) for one in found], machine)
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
    """Follow devices as they come and go."""
    from . import config, select
    from .watch import ending, outlets, run

    filters = select.Filters(vendor or (), state or (), slot or (), numa or (), label or ())
    asked = run.Asked(
        subject=ending.Subject(tuple(devices or ()), filters),
        until=ending.state(until) if until else None, count=count,
        timeout_s=duration(timeout, "--timeout") if timeout else None,
        for_s=duration(for_, "--for") if for_ else None, source=source, record=record, replay=replay,
        batch_s=duration(batch, "--batch") if batch else None,
        outlets=outlets.Wanted(
            sinks=tuple(sink or ()), metrics_file=metrics_file, labels_file=labels_file, command=exec_),
    )
    _only_live(common, replay)
    settings = config.settings(common.config)
    with show.changes(common, settings.budget_add) as tell:
        return run.follow(
            lambda: _look(common, filters), asked, settings, tell, lambda text: show.hint(common, text))


def _only_live(common: Common, replay: str | None) -> None:
    if common.root != "/":
        raise HotplugError("watch cannot be used with --root", why="nothing happens in a captured machine",
                           hint="hotplugctl watch --replay FILE", exit=Exit.USAGE)


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
    """Take a device out of service without losing work, and back."""
    from . import select
    from .drain import command
    from .drain.site import Wish

    filters = select.Filters(vendor or (), state or (), slot or (), numa or (), label or ())
    order = command.Order(
        Wish(goal="power" if power_off or replace else "remove" if remove else "unbind", replace=replace,
             timeout_s=duration(timeout, "--timeout") if timeout is not None else None,
             grace_s=duration(grace, "--grace"), stop_holders=stop_holders, scheduler=scheduler, scope=scope,
             group=group, reason=reason or ""),
        tuple(devices or ()), filters, dry_run=dry_run, yes=yes, undo=undo, status=status)
    return command.carry_out(common, order, lambda: _look(common, filters))


@app.command(epilog=_epilog("hotplugctl diagnose slot:3", "hotplugctl diagnose --from dmesg.txt --from lspci.txt"))
@verb
def diagnose(
    common: Common, devices: Devices = None,
    from_: Annotated[list[str] | None, typer.Option(
        "--from", metavar="PATH",
        help="Evidence: bundle, sosreport, dmesg or lspci text, logs, a folder (repeatable; one case).")] = None,
    since: Annotated[str | None, typer.Option(metavar="D", help="Only log lines this recent.")] = None,
    fail_on: Annotated[str, typer.Option(metavar="SEVERITY", help="Exit 1 from this severity on.")] = "warning",
    explain: Annotated[str | None, typer.Option(
        metavar="RULE|CAUSE",
        help="What it means, how it is told, how that comes out here; `all` lists the causes.")] = None,
    capture: Capture = None, keep_identifiers: Keep = False,
    vendor: Vendor = None, state: StateIs = None, slot: SlotIs = None, numa: Numa = None, label: Label = None,
) -> Exit:
    """Say at which layer a hot-plug failed, why, the proof, and what to do next."""
    from . import case, select
    from .output import verdicts

    worst = case.severity(fail_on)
    if explain is not None and common.form is Output.html:
        raise HotplugError("--explain has no page", why="a page shows one case",
                           hint=f"hotplugctl diagnose --explain {explain}", exit=Exit.USAGE)
    filters = select.Filters(vendor or (), state or (), slot or (), numa or (), label or ())
    if explain == "all":
        causes = case.root_causes()
        show.loose(common, "root_causes", causes, lambda: verdicts.causes(causes))
        return Exit.OK
    if explain is not None and not case.is_rule(explain) and not (
            devices or from_ or capture or since or common.root != "/" or filters != select.Filters()):
        return _explained(common, case.explanation(explain))       # a cause, and no evidence is named
    if from_ and (capture is not None or common.root != "/"):
        raise HotplugError("--from cannot be used with --root or --capture", why="it is the whole evidence",
                           hint="leave one of them out", exit=Exit.USAGE)
    with show.progress(common, "reading the evidence"):
        if from_:
            found = case.from_files(from_, common, devices or (), filters, since)
        else:
            seen = _look(common, filters, capture=capture, keep=keep_identifiers)
            found = case.from_machine(seen, devices or (), filters, since)
            if capture is not None:
                from . import capture as capturing

                show.hint(common, capturing.save(seen, capture))
    for said in found.scanned:
        show.detail(common, said)
    if explain is not None:
        return _explained(common, found.explained(explain))
    if common.form is Output.html:
        from . import retold
        from .output import html

        command = retold.diagnose(common, devices or (), from_ or (), filters, since=since, fail_on=fail_on)
        show.out(html.page(found.diagnosis, found.machine, command))
        return case.exit_code(found.diagnosis, worst)
    show.value(common, "diagnosis", found.diagnosis, lambda: verdicts.pages(found.diagnosis, found.machine.gaps),
               found.machine)
    return case.exit_code(found.diagnosis, worst)


def _explained(common: Common, explanation: Explanation) -> Exit:
    from .output import verdicts

    show.loose(common, "explanation", explanation, lambda: verdicts.explained(explanation))
    return Exit.OK


# --- shared by the commands ----------------------------------------------------------------------------------------


def _look(
    common: Common, filters: Filters | None = None, *, capture: str | None = None, keep: bool = False
) -> Look:
    """The machine that --root names, with the settings and profiles in force; the filters must be possible ones."""
    from . import config, opened, select

    settings = config.settings(common.config)
    seen = opened.look_at(common.root, settings, redact=common.redact, capturing=capture is not None, keep=keep)
    if filters is not None:
        select.check_filters(filters, {profile.id: profile.name for profile in seen.profiles})
    show.detail(common, f"looking at {common.root}: {len(seen.functions)} PCI functions, {len(seen.profiles)} profiles")
    for name, source in settings.sources.items():
        show.detail(common, f"{name} from {source}")
    return seen


def _show_config(common: Common) -> Exit:
    from . import config
    from .output import views

    settings = config.shown(config.settings(common.config))
    data = [{"setting": name, "value": value, "from": source} for name, value, source in settings]
    show.loose(common, "config", data, lambda: [views.settings(settings)])
    return Exit.OK
