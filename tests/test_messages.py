"""What the kernel, drivers and runtimes say, message by message: which are known, and what each means alone.

`messages.tsv`: a name, how bad its source calls it, the answer, an example. The kernel's wordings are those of Linux
6.1, 6.12 and later, the drivers' of their sources; Xid codes are NVIDIA's, the others of CANN, DCMI and Ascend's BMC.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from hotplugctl.diagnose import diagnose
from hotplugctl.model import Machine
from hotplugctl.readers.logs import read_log
from hotplugctl.rules import load
from hotplugctl.rules.hearing import hear

RULES = load.load_rules(load.rule_files())


class Message(NamedTuple):
    """A line of the table. `answer` is a root cause, `healthy`, or `unknown` where the line alone does not tell."""

    name: str
    severity: str
    answer: str
    text: str


MESSAGES = [Message(*line.split("\t")) for line in Path(__file__).with_name("messages.tsv").read_text().splitlines()]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_a_message_alone_gets_its_answer(message: Message) -> None:
    found = diagnose(
        Machine(host="", logs=read_log(message.text, "log")), RULES, load.taxonomy(), load.profiles(), live=False)
    assert (found.root_cause.id if found.root_cause is not None else found.verdict) == message.answer


@pytest.mark.parametrize(
    "message", [m for m in MESSAGES if m.severity not in ("info", "notice")], ids=lambda message: message.name)
def test_a_message_of_trouble_is_known(message: Message) -> None:
    assert hear(RULES, read_log(message.text, "log"))


def test_what_drivers_say_in_passing_is_no_fault() -> None:
    """But for a BAR that could not grow, and a card whose id reads as all ones: the kernel says both in passing."""
    quiet = [m for m in MESSAGES if m.severity in ("info", "notice") and not m.name.startswith(("code.", "xid."))]
    faults = {m.name for m in quiet if m.answer not in ("healthy", "unknown")}
    assert faults == {"xe.rebar", "nv.bar1", "hp.dbg_idread"}
