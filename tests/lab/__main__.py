# SPDX-License-Identifier: Apache-2.0
"""The lab by hand: `python -m tests.lab` is a root shell in the guest, and a prompt to plug and break cards."""

from __future__ import annotations

import argparse
import os
import readline  # noqa: F401 - input() gets line editing by it
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from types import FrameType

from .boot import CommandError, GuestError, Job
from .drills import DrillError, perform, table
from .guest import Guest
from .kernel import LabUnavailable
from .qmp import QmpError

ESCAPE = b"\x1d"  # Ctrl-]
TERMINAL = "/dev/ttyS1"
BANNER = """\
This is a root shell in a virtual machine with real PCIe hot-plug ({kernel}, up in {seconds:.0f} s).
It runs on a copy of this machine's files: `hotplugctl` is this checkout's. Nothing you do here reaches the host.

Ctrl-]      opens the lab prompt: plug 1, pull 1, break 1, fault hang_remove, slots, help ...
exit        ends the lab
Try this:   hotplugctl watch     then Ctrl-] and   plug 1
"""
HELP = """\
{drills}
  help                                 this
  quit                                 end the lab
  (an empty line goes back to the shell)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__,
                                     epilog="drills:\n" + table(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", dest="script", metavar="COMMAND", action=Step, default=[],
                        help="run a shell command in the guest instead of a terminal; repeatable")
    parser.add_argument("--drill", dest="script", metavar="LINE", action=Step,
                        help="do a drill, in its place among the --run; repeatable")
    parser.add_argument("--acpi", action="store_true", help="slots that belong to the firmware, as in cloud machines")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="of the guest (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS",
                        help="for each --run (default: %(default)s)")
    given = parser.parse_args()
    try:
        with Guest(acpi_hotplug=given.acpi, memory_mib=given.memory) as guest:
            guest.clean()
            return script(guest, given.script, given.timeout) if given.script else interact(guest)
    except (LabUnavailable, GuestError, CommandError, DrillError, QmpError, TimeoutError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3 if isinstance(error, LabUnavailable) else 1
    except KeyboardInterrupt:
        return 130


class Step(argparse.Action):
    """--run and --drill keep their order."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object,
                 option_string: str | None = None) -> None:
        namespace.script = [*namespace.script, (option_string, values)]


def script(guest: Guest, steps: list[tuple[str, str]], timeout: float) -> int:
    """Do the steps in order; the status of the first command that fails ends it."""
    for option, line in steps:
        if option == "--drill":
            print(perform(guest, line), file=sys.stderr, flush=True)
            continue
        result = guest.run(line, timeout, check=False)
        sys.stderr.write(result.stderr)
        sys.stdout.write(result.stdout)
        sys.stdout.flush()
        if result.status:
            return result.status if result.status > 0 else 128 - result.status
    return 0


def interact(guest: Guest) -> int:
    """A shell in the guest on this terminal until it exits, with the lab prompt behind Ctrl-]."""
    if not sys.stdin.isatty():
        print("lab: no terminal here; use --run and --drill", file=sys.stderr)
        return 2
    print(BANNER.format(kernel=guest.run("uname -sr").stdout.strip(), seconds=guest.boot_seconds))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(guest.folder / "terminal"))
        shell = _shell(guest)

        def resized(number: int, frame: FrameType | None) -> None:
            guest.start(f"stty {_size()} < {TERMINAL}")
        signal.signal(signal.SIGWINCH, resized)
        while _relay(line, shell):
            if not _prompt(guest):
                break
            line.sendall(b"\n")  # the shell shows its prompt again
    return 0


def _shell(guest: Guest) -> Job:
    """An interactive bash on the guest's second serial port."""
    term = os.environ.get("TERM", "vt100")
    # Leader of its session, bash gets the port as its controlling terminal by opening it. The port forgets its
    # settings when its last user closes it.
    command = f"exec < {TERMINAL} > {TERMINAL} 2>&1; stty sane {_size()}; exec bash -i"
    return guest.start(command, env={"TERM": term})


def _size() -> str:
    columns, rows = shutil.get_terminal_size()
    return f"rows {rows} cols {columns}"


def _relay(line: socket.socket, shell: Job) -> bool:
    """Pass bytes both ways until Ctrl-] (True) or the end of the shell (False)."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    tty.setraw(keys)
    try:
        while True:
            ready, _, _ = select.select([keys, line], [], [], 0.5)
            if line in ready:
                output = line.recv(65536)
                if not output:
                    return False
                os.write(sys.stdout.fileno(), output)
            if keys in ready:
                typed = os.read(keys, 1024)
                before_escape, escape, _ = typed.partition(ESCAPE)
                line.sendall(before_escape)
                if escape or not typed:
                    return bool(typed)
            if not ready and not shell.running():
                return False
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _prompt(guest: Guest) -> bool:
    """Drills until an empty line (True) or quit (False)."""
    print()
    while True:
        try:
            line = input("lab> ").strip()
        except EOFError:
            return True
        if not line:
            return True
        if line in ("quit", "exit"):
            return False
        if line in ("help", "?"):
            print(HELP.format(drills=table()))
            continue
        try:
            print(perform(guest, line))
        except (CommandError, DrillError, QmpError, OSError) as error:
            print(f"lab: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
