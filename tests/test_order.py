"""Lines in the order in which they were written, each once, as far as their stamps tell."""

from __future__ import annotations

from hotplugctl.diagnose.order import in_order
from hotplugctl.readers.logs import read_log

CARD = "pci 0000:3b:00.0: hello"


def stamps(*seconds: float | None) -> list[float | None]:
    """The stamps of lines about a card after they were put in order."""
    text = "\n".join(f"[ {at}] {CARD} {at}" if at is not None else CARD for at in seconds)
    return [line.monotonic for line in in_order(read_log(text, "log"))]


def test_a_shuffled_log_is_put_in_the_order_of_its_stamps() -> None:
    assert stamps(5.0, 2.0, 4.0, 1.0, 3.0) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_line_without_a_stamp_stays_below_its_neighbour() -> None:
    assert stamps(5.0, None, 2.0, 4.0, 1.0) == [1.0, 2.0, 4.0, 5.0, None]


def test_a_reboot_is_no_disorder() -> None:
    assert stamps(100.0, 200.0, 1.0, 2.0, 3.0) == [100.0, 200.0, 1.0, 2.0, 3.0]


def test_the_same_line_sent_twice_is_one_line() -> None:
    lines = [*read_log(f"[ 1.5] {CARD}", "dmesg.txt"), *read_log(f"[ 1.5] {CARD}\n[ 1.5] other\n{CARD}", "kern.log")]
    assert [(line.source, line.text) for line in in_order(lines)] == [
        ("dmesg.txt", CARD), ("kern.log", "other"), ("kern.log", CARD),
    ]
