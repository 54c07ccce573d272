"""Uevents off real sockets: the kernel's about /dev/null, udev's from a udevd in namespaces of its own.

What runs `inside` a namespace of its own is a function here, called by a process that `unshare` starts.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hotplugctl.host.live import Live
from hotplugctl.host.waiting import Waiting
from hotplugctl.model import Uevent, Unknown
from hotplugctl.readers.uevents import Heard, KernelEvents, UdevEvents, parse, udev_running

from .bench import announce
from .bench.announce import Announcer
from .bench.messages import message, of_udev
from .machine import MachineTree

ROOT = Path(__file__).parent.parent
UDEVD = Path("/lib/systemd/systemd-udevd")

announced = pytest.mark.skipif(not announce.allowed(), reason=f"needs root, to write {announce.NULL}")


# ---- parsing


def test_a_kernel_message_becomes_an_event_with_every_property() -> None:
    event = parse(message(), 12.5, "kernel")
    assert event == Uevent(4711, "add", "pci", "/devices/pci0000:00/0000:00:01.0", {
        "ACTION": "add", "DEVPATH": "/devices/pci0000:00/0000:00:01.0", "SUBSYSTEM": "pci", "PCI_ID": "1234:11E8",
        "SEQNUM": "4711",
    }, 12.5, "kernel")


def test_libudevs_framing_says_the_same() -> None:
    plain = parse(message(), 1.0, "kernel")
    framed = parse(of_udev(message().partition(b"\0")[2]), 1.0, "kernel")
    assert framed == plain


def test_a_value_may_hold_newlines_equal_signs_and_bytes_that_are_no_text() -> None:
    raw = message() + b"A=one\ntwo=2\0B=\xff\xfe\0C=\xe6\x98\x87\0D=\0"
    event = parse(raw, 0.0, "kernel")
    assert event is not None
    values = [event.properties[key] for key in "ABCD"]
    assert values == ["one\ntwo=2", "\\xff\\xfe", "\N{CJK UNIFIED IDEOGRAPH-6607}", ""]


def test_of_a_key_given_twice_the_kernels_own_counts() -> None:
    event = parse(message() + b"SUBSYSTEM=net\0ACTION=remove\0", 0.0, "kernel")
    assert event is not None
    assert (event.subsystem, event.action) == ("pci", "add")


@pytest.mark.parametrize("raw", [
    b"", b"\0", b"\0\0\0", b"add@/devices/x", b"add@/devices/x\0", b"no at sign\0" + message().partition(b"\0")[2],
    message()[:-1], message().replace(b"SEQNUM=4711\0", b""), message().replace(b"4711", b"-1"),
    message().replace(b"4711", b"9" * 5000), message().replace(b"4711", "\N{SUPERSCRIPT TWO}".encode()),
    message().replace(b"SUBSYSTEM", b"SUBSYS"), message().replace(b"\0ACTION", b"\0"), b"\xff" * 100_000,
    b"libudev\0", of_udev(b""), of_udev(message(), magic=b"\xca\xfe\xfe\xed"), of_udev(message(), length=1 << 31),
    of_udev(message(), length=20), struct.pack("=8s4sIII", b"libudev\0", b"\xfe\xed\xca\xfe", 40, 0, 24),
], ids=range(20))
def test_what_is_cut_or_no_event_is_none(raw: bytes) -> None:
    assert parse(raw, 0.0, "kernel") is None


def test_no_beginning_of_a_message_passes_for_the_whole() -> None:
    framed = of_udev(message().partition(b"\0")[2])
    assert [cut for cut in range(len(message())) if parse(message()[:cut], 0.0, "kernel")] == []
    assert [cut for cut in range(len(framed)) if parse(framed[:cut], 0.0, "udev")] == []


# ---- the kernel's group


def mine(heard: Heard, announcer: Announcer) -> list[Uevent]:
    return [event for event in heard.events if event.properties.get("SYNTH_UUID") == announcer.uuid]


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Long, because udevd works off every storm on the machine first, those of other namespaces too."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def collect(events: KernelEvents | UdevEvents, announcer: Announcer, count: int = 1) -> list[Uevent]:
    """The announcer's own events: another process may be announcing too."""
    found: list[Uevent] = []

    def enough() -> bool:
        found.extend(mine(events.read(), announcer))
        return len(found) >= count

    until(enough)
    return found


def hear_again(events: KernelEvents | UdevEvents, announcer: Announcer) -> None:
    """Announce until it is heard: a tiny buffer may be full of somebody else's events for a while."""
    def heard() -> bool:
        announcer.say(AGAIN=1)
        time.sleep(0.02)
        return any("SYNTH_ARG_AGAIN" in event.properties for event in mine(events.read(), announcer))

    until(heard)


@pytest.fixture
def announcer() -> Iterator[Announcer]:
    with Announcer() as announcer:
        yield announcer


@contextmanager
def listening(*subsystems: str, buffer: int = 16 << 20, filtered: bool = True) -> Iterator[KernelEvents]:
    events = KernelEvents(set(subsystems), buffer=buffer, filtered=filtered)
    yield events
    events.close()


@announced
@pytest.mark.parametrize("filtered", [True, False])
def test_an_event_is_heard_with_its_arguments_and_its_time(announcer: Announcer, filtered: bool) -> None:
    with listening("mem", "pci", filtered=filtered) as events:
        assert events.filtered is filtered
        before = announcer.say(N=1, SLOT="0000b3")
        event, = collect(events, announcer)
        assert (event.action, event.subsystem, event.group) == ("change", "mem", "kernel")
        assert event.devpath == "/devices/virtual/mem/null"
        assert event.properties["SYNTH_ARG_SLOT"] == "0000b3"
        assert event.seq == int(event.properties["SEQNUM"])
        assert before < event.at < time.monotonic()


@announced
def test_another_subsystems_event_does_not_even_wake_us(announcer: Announcer) -> None:
    waiting = Waiting()
    with listening("pci") as ours, listening("pci", filtered=False) as unfiltered:
        waiting.add("ours", ours.fileno())
        waiting.add("unfiltered", unfiltered.fileno())
        announcer.say(N=1)
        assert waiting.wait(1) == {"unfiltered"}
        heard = unfiltered.read()
        assert heard.seen >= 1
        assert (heard.events, heard.lost) == ([], 0)
        assert ours.read() == Heard([], 0, 0)
    waiting.close()


@announced
def test_nothing_waiting_is_nothing_heard_at_once() -> None:
    with listening("no such subsystem") as events:
        started = time.monotonic()
        assert events.read() == Heard([], 0, 0)
        assert time.monotonic() - started < 0.1


@announced
def test_a_read_ends_at_its_limit_and_the_next_goes_on(announcer: Announcer) -> None:
    with listening("mem") as events:
        for number in range(25):
            announcer.say(N=number)
        numbers: list[str] = []

        def all_read() -> bool:
            heard = events.read(limit=10)
            assert heard.seen <= 10
            numbers.extend(event.properties["SYNTH_ARG_N"] for event in mine(heard, announcer))
            return len(numbers) >= 25

        until(all_read)
        assert numbers == [str(number) for number in range(25)], "each once, in order"


@announced
def test_what_was_sent_is_either_heard_or_counted_as_lost(announcer: Announcer) -> None:
    with listening("mem", buffer=4096) as events:
        announcer.storm(2000)
        waiting = Waiting()
        waiting.add("events", events.fileno())
        assert waiting.wait(1) == {"events"}
        waiting.close()
        heard = events.read()
        assert heard.lost > 1000
        assert len(heard.events) + heard.lost >= 2000  # more where another process announces too
        hear_again(events, announcer)


@announced
@pytest.mark.parametrize("filtered", [True, False])
def test_a_storm_about_others_costs_nothing_that_is_ours(announcer: Announcer, filtered: bool) -> None:
    with listening("pci", filtered=filtered) as events:
        lost = seen = 0
        for _ in range(50):
            announcer.storm(1000)
            heard = events.read(limit=100_000)
            lost, seen = lost + heard.lost, seen + heard.seen
        assert lost == 0
        assert seen == 0 if filtered else seen >= 50_000


@announced
def test_a_storm_about_ours_is_heard_whole_or_its_losses_are_counted(announcer: Announcer) -> None:
    with listening("mem", buffer=4 << 20) as events:
        announcer.storm(50_000)  # more than the buffer holds
        heard = lost = 0
        while (some := events.read(limit=500)).seen or some.lost:
            heard, lost = heard + len(some.events), lost + some.lost
            assert len(some.events) <= 500
        assert heard + lost >= 50_000
        assert lost > 0


def test_no_privilege_is_needed() -> None:
    script = ("import ctypes, os\n"
              "from hotplugctl.readers.uevents import KernelEvents\n"
              "os.geteuid() or os.setuid(65534)\n"
              "events = KernelEvents.open({'pci'}); print(events.filtered, events.read())")
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.stdout == "True Heard(events=[], lost=0, seen=0)\n", done.stderr


# ---- inside namespaces of their own


def inside(function: Callable[[], None], *flags: str) -> None:
    """Call it in a fresh process with its own namespaces; what it asserts, this asserts."""
    command = [sys.executable, "-c", f"from tests.test_uevents import {function.__name__}; {function.__name__}()"]
    done = subprocess.run(["unshare", *flags, *command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


NAMESPACES = subprocess.run(["unshare", "-mn", "true"], capture_output=True).returncode == 0
as_root = pytest.mark.skipif(not NAMESPACES, reason="needs root, for namespaces")


@as_root
def test_a_forged_event_is_not_heard_and_an_unclear_one_is_a_loss() -> None:
    inside(inside_forged, "-n")


def inside_forged() -> None:
    with listening("pci") as filtered, listening("pci", filtered=False) as plain, socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW, 15
    ) as sender:
        both = (filtered, plain)
        sender.bind((0, 0))
        sender.sendto(message(), (0, 1))
        assert filtered.read() == Heard([], 0, 1), "an event of another process"
        assert plain.read().events == []
        announce_as_owner(sender, message().replace(b"SEQNUM=4711\0", b"NAME=\xff\n\0"))
        for events in both:
            heard = events.read()
            assert [event.properties["NAME"] for event in heard.events] == ["\\xff\n"], "the owner announces a card"
        for hostile in (b"nonsense" * 4, b"add@/x\0" + b"A" * 1000, message()[:-20], b"\0" * 100, b"\xff" * 1000):
            announce_as_owner(sender, hostile)
        heard = plain.read()
        assert (heard.events, heard.lost) == ([], 5)
        heard = filtered.read()
        assert heard.lost == heard.seen
        assert not heard.events


def announce_as_owner(sender: socket.socket, raw: bytes) -> None:
    """Have the kernel pass it on as its own, with a SEQNUM behind it (uevent_net_rcv): needs the namespace."""
    sender.sendto(struct.pack("=IHHII", 16 + len(raw), 16, 1, 0, 0) + raw, (0, 0))


@contextmanager
def udevd() -> Iterator[subprocess.Popen[bytes]]:
    """A real udevd that sees only this namespace: its own /run, and a /dev without the machine's nodes."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    Path("/run/udev").mkdir()
    assert not udev_running(Live())
    assert UdevEvents.open(Live(), {"mem"}) is None
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev"], check=True)
    subprocess.run(["mknod", "-m", "666", "/dev/null", "c", "1", "3"], check=True)
    process = start_udevd()
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def start_udevd() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([str(UDEVD), "--children-max=2", "--resolve-names=never"], stderr=subprocess.DEVNULL)
    until(lambda: udev_running(Live()) is True)
    time.sleep(0.2)  # from control to listening
    return process


with_udevd = pytest.mark.skipif(not NAMESPACES or not UDEVD.exists(), reason=f"needs root and {UDEVD}")


@with_udevd
def test_udevs_events_come_after_the_kernels_with_what_its_rules_added() -> None:
    inside(inside_order, "-mn", "--propagation", "private")


def inside_order() -> None:
    with udevd(), Announcer() as announcer, listening("mem") as kernel:
        udev, other = UdevEvents.open(Live(), {"mem"}), UdevEvents.open(Live(), {"pci"})
        assert isinstance(udev, UdevEvents)
        assert isinstance(other, UdevEvents)
        announcer.say(N=7)
        first, = collect(kernel, announcer)
        second, = collect(udev, announcer)
        assert (second.seq, second.action, second.subsystem, second.devpath, second.group) == (
            first.seq, first.action, first.subsystem, first.devpath, "udev")
        assert first.at < second.at < time.monotonic()
        assert second.properties["SYNTH_ARG_N"] == "7"
        assert set(second.properties) > set(first.properties)
        assert other.read() == Heard([], 0, 0)
        udev.close()
        other.close()


@with_udevd
def test_udevs_events_go_on_after_an_overflow_and_after_a_restart_of_udevd() -> None:
    inside(inside_overflow, "-mn", "--propagation", "private")


def inside_overflow() -> None:
    with udevd() as first, Announcer() as announcer:
        large, small = UdevEvents({"mem"}), UdevEvents({"mem"}, buffer=4096)
        waiting = Waiting()
        waiting.add("small", small.fileno())
        announcer.storm(2000)
        collect(large, announcer, 2000)
        assert waiting.wait(1) == {"small"}
        heard = small.read()
        assert heard.lost > 1000
        assert len(heard.events) + heard.lost >= 2000
        hear_again(small, announcer)
        first.terminate()
        first.wait()
        second = start_udevd()
        hear_again(small, announcer)
        second.terminate()
        second.wait()


def test_whether_udevd_runs_is_read_off_the_machine_looked_at(machine: MachineTree) -> None:
    assert udev_running(machine.host) is False
    machine.put("/run/udev/control", "")
    assert udev_running(machine.host) is True
    assert not isinstance(udev_running(Live()), Unknown)
