"""What the pages of the verbs say in words, beside what is read off the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# How an option may be written that takes one of these.
WRITTEN: Mapping[str, str] = {
    "D": "A duration is written `500ms`, `3s`, `5m` or `infinity`.",
    "SIZE[,SIZE...]": "A size is written `64M` or `16G`, in powers of 1024.",
}

FILTERS = (
    "Filters choose among the devices. "
    "An option given several times means any of its values; different options must all hold."
)


@dataclass(frozen=True)
class Prose:
    """The paragraphs of a verb's page, and its examples: (what it does, the command)."""

    description: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]
    see_also: tuple[str, ...]


VERB_PROSE: Mapping[str, Prose] = {
    "list": Prose(
        (
            "List every accelerator of the machine with its address, slot, driver, link, device nodes and state, and "
            "what keeps it from the next state. A slot that reports a card which the bus does not show has a row of "
            "its own, without an address. Virtual functions are left out unless `--wide` asks for them.",
            "A function is an accelerator when a vendor profile covers it, or when it is of PCI class 12; see "
            "`hotplugctl-rules`(5). With `--all-pci` every function but the bridges is listed.",
            "A state followed by a question mark is the highest that could be seen: something needed to go on could "
            "not be looked at. Only files are read; no vendor tool runs unless `--handshake` asks for it, so a "
            "card whose last health check is too old is `initialised?` and not `ready`.",
            "`--save-expect` writes what is here to a file, `--expect` compares with one and names every card that is "
            "missing, was not expected, or was exchanged, and every link that is narrower; exit status 1 then.",
            "`hotplugctl` without a verb is `list`, followed by one line on the health of all. "
            "It takes the same options.",
        ),
        (
            ("What is here, and one line on its health:", "hotplugctl"),
            ("Every slot, filled or empty, and what it can still take:", "hotplugctl list --slots"),
            ("The failed cards, for a script:", "hotplugctl list --state failed -o json"),
            ("Chosen columns of the cards of one vendor:", "hotplugctl list --vendor nvidia --columns slot,link,state"),
            ("Write down what should be here, and check later:", "hotplugctl list --save-expect machine.json"),
            ("", "hotplugctl list --expect machine.json"),
        ),
        ("hotplugctl(1)", "hotplugctl-probe(1)", "hotplugctl-config(5)", "lspci(8)"),
    ),
    "probe": Prose(
        (
            "Show everything about one device: its identity, link, BARs, capabilities and errors, the ports above it "
            "from the root port down, its IOMMU group, driver, device nodes, who holds them open, and what the port "
            "above it can still take. Much of it can be read by root alone; what could not be looked at says so.",
            "`slot:`*NAME* of an empty slot shows the ports above the slot. Where a slot holds several devices, all of "
            "them are shown, and `-o json` has an array.",
            "`--capture` writes all answers down as a bundle: a directory, or one file when the name ends in .tar.gz, "
            ".tgz or .tar. Every command takes it back with `--root` and answers as on the machine itself. Serial "
            "numbers, UUIDs, and host and user names are replaced by stable aliases unless `--keep-identifiers` is "
            "given. A capture never overwrites.",
            "`--locate on` makes the slot's attention indicator blink, `--locate off` ends that. It writes to the "
            "machine: root only, and not together with `--root`.",
        ),
        (
            ("All about the card in slot 3:", "hotplugctl probe slot:3"),
            ("A bundle for somebody else to look at:", "hotplugctl probe 3b:00.0 --capture card.tar.gz"),
            ("The same answers from the bundle:", "hotplugctl probe 3b:00.0 --root card.tar.gz"),
            ("Would a card with a BAR of 64 GiB fit there?", "hotplugctl probe slot:4 --fits 64G"),
            ("Find the slot in the rack:", "hotplugctl probe slot:3 --locate on"),
        ),
        ("hotplugctl(1)", "hotplugctl-list(1)", "hotplugctl-diagnose(1)", "lspci(8)"),
    ),
    "watch": Prose(
        (
            "Follow devices as they come and go: each line is one change, see `hotplugctl-events`(7). The first one "
            "is a snapshot of what is there.",
            "With `--until` it ends when every DEVICE is at that state or on a higher rung (without DEVICE at the "
            "first change to it), with 1 when one of them fails first, and with 6 when `--timeout` is over.",
            "Changes go to network sinks through a spool on disk before they are printed, so that none that was "
            "printed is lost; a second watch with sinks is refused.",
        ),
        (
            ("Follow everything:", "hotplugctl watch"),
            ("Wait until the card in slot 3 can be used, 20 seconds at most:",
             "hotplugctl watch slot:3 --until ready --timeout 20s -o jsonl"),
        ),
        ("hotplugctl(1)", "hotplugctl-events(7)", "udevadm(8)"),
    ),
    "drain": Prose(
        (
            "Take a device out of service without losing work, and make it safe to pull; and take that back. A plain "
            "drain ends with the card unbound from its driver and still on the bus. `--remove` takes it off the bus, "
            "`--power-off` also switches its slot off, after which it may be pulled.",
            "Everything is planned first, and `--dry-run` shows the plan: the steps, what forbids them, and what "
            "should be known before. Every function below the slot's port is in the plan. Refused, whatever is asked: "
            "a card that this machine itself lives on (a mounted file system, swap, the console's display, the "
            "interface of the default route), and one with a device of another kind below the same port.",
            "The steps, in order: the hooks in `drain-check`, which alone may veto; the record, below "
            "/var/lib/hotplugctl/drain; the hooks in `drain-pre`; the scheduler is told to leave the card alone; "
            "applications that listen are told how long they have; the work is waited for; the services that hold "
            "every card open are stopped; virtual functions are switched off; every function is unbound, the last "
            "first; then the card is removed or its slot switched off; the slot's light blinks; the hooks in "
            "`drain-post`. Each is recorded before it acts, has a deadline, and is verified by looking. Nothing is "
            "tried after a step that failed.",
            "A process that has the card, a job or a pod on it forbids the drain until `--timeout` waits for it or "
            "`--stop-holders` ends it: a job or pod by its scheduler, a process by TERM and, after `--grace`, by KILL. "
            "With both, it is waited for first. Process 1, kernel threads and the ancestors of this command are never "
            "signalled.",
            "The same command goes on after Ctrl-C, a crash or a reboot. `--undo` takes back what was done, and only "
            "that, and waits until the card is as far up as it was; after a reboot only what a scheduler was told is "
            "left to take back. `--status` shows the drains in progress. Without a terminal to ask at, `--yes` is "
            "needed.",
            "With Slurm one card is closed by a job of our own that occupies it, with `--scope node` the node is "
            "drained. With Kubernetes one card is closed by a DeviceTaintRule where the cluster has them, with "
            "`--scope node` the node is cordoned. Nothing is ever taken back that others did.",
            "`--replace` guides a person through the exchange of the card: drained and switched off, pulled, another "
            "one in its place and ready, compared with the one before, and in service again.",
        ),
        (
            ("What would be done:", "hotplugctl drain slot:3 --dry-run"),
            ("Wait ten minutes for the work to end, then switch the slot off:",
             "hotplugctl drain 3b:00.0 --timeout 10m --power-off"),
            ("Exchange the card, step by step:", "hotplugctl drain slot:3 --replace"),
            ("Take it back:", "hotplugctl drain 3b:00.0 --undo"),
            ("What is out of service, and how to go on:", "hotplugctl drain --status"),
        ),
        ("hotplugctl(1)", "hotplugctl-probe(1)", "hotplugctl-config(5)", "hotplugctl-events(7)"),
    ),
    "diagnose": Prose(
        (
            "Say at which layer a hot-plug failed (hardware, driver, runtime or application), why, what proves it, and "
            "what to do next. The answer is one root cause with its evidence, and beneath it what follows from it, "
            "what was ruled out and what could not be checked.",
            "Without `--from` this machine is looked at, and each card's health check runs; with `--root` a captured "
            "one, without. Beside sysfs and the kernel log it reads the kernel's journal, where the log has lost its "
            "beginning or may not be read, and the logs of the cards' vendors and of the applications that "
            "`hotplugctl-config`(5) names: what they say of the last hour, or of `--since`.",
            "With `--from` the evidence is what the files hold: a bundle, a sosreport, a vendor's bug report, kernel "
            "log or journal text, `lspci` text of any form, runtime and application logs, a folder or archive of them, "
            "compressed or not, told apart by content; `-` is the standard input, `demo` the captured machine that "
            "ships. Several files are one case. A file that cannot be used, or only half, is named below the verdict, "
            "and the answer stands on the rest. Of a large log only the lines are kept that a rule or the reasoning "
            "can need; `--verbose` says how many. That is fast with the Python package hyperscan or "
            "google-re2 (the extra `scan`), slow without.",
            "The verdict is `fault` when a finding of severity `warning` or above stands, `healthy` when none does and "
            "the evidence shows that all is well, and else `unknown`: then the commands are named whose output would "
            "tell more. A layer that nobody could look at is unknown, never well.",
            "Exit status 1 means a finding at or above `--fail-on` stands, 3 that the verdict is unknown.",
            "`--since` counts back from now on a machine that is looked at, and from the newest line of each log else.",
            "`--explain` with a root cause tells what it means and how it is told; with `all` it lists them. With a "
            "rule, or where evidence is named beside it, it shows how each part of the condition comes out: yes, no or "
            "unknown, with the lines and facts it rests on, and what excuses a line that would have counted.",
        ),
        (
            ("This machine:", "hotplugctl diagnose"),
            ("The slot whose card does not come up:", "hotplugctl diagnose slot:3"),
            ("What somebody sent:", "hotplugctl diagnose --from dmesg.txt --from lspci.txt.gz"),
            ("What a cause means, and how it is told:", "hotplugctl diagnose --explain bar_space_exhausted"),
            ("Why a rule holds here, or does not:", "hotplugctl diagnose --from dmesg.txt --explain hw.bar-no-space"),
            ("What a pipe gives:", "hotplugctl diagnose --from -"),
            ("In a script, only errors counting:", "hotplugctl diagnose --fail-on error -o json"),
        ),
        ("hotplugctl(1)", "hotplugctl-probe(1)", "hotplugctl-rules(5)", "dmesg(1)", "journalctl(1)"),
    ),
}
