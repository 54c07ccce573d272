# SPDX-License-Identifier: Apache-2.0
"""The first file system of the guest: busybox, five modules, two scripts and the settings of this boot."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from .kernel import Kernel

HERE = Path(__file__).parent
MODULES = ("netfs", "9pnet", "9pnet_virtio", "9p", "overlay")
FILE, FOLDER = 0o100755, 0o040755


def build(kernel: Kernel, settings: dict[str, str]) -> bytes:
    """A cpio archive for -initrd; `settings` become shell variables of init.sh and stage2.sh."""
    text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())
    files = {
        "bin/busybox": Path("/bin/busybox").read_bytes(),
        "init": (HERE / "init.sh").read_bytes(),
        "stage2.sh": (HERE / "stage2.sh").read_bytes(),
        "settings": text.encode(),
    }
    for name in MODULES:
        path = kernel.module(name)
        # xz itself, because a Python built from source often has no lzma.
        files[f"modules/{name}.ko"] = (subprocess.run(["xz", "-dc", str(path)], capture_output=True, check=True).stdout
                                       if path.suffix == ".xz" else path.read_bytes())
    folders = [_entry(name, FOLDER, b"") for name in ("bin", "modules")]
    return b"".join([*folders, *(_entry(name, FILE, data) for name, data in files.items()),
                     _entry("TRAILER!!!", 0, b"")])


def _entry(name: str, mode: int, data: bytes) -> bytes:
    """One member in the "newc" form (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    # magic, then ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + "".join(f"{number:08x}" for number in numbers).encode() + name.encode() + b"\0"
    return _padded(head) + _padded(data)


def _padded(raw: bytes) -> bytes:
    return raw + b"\0" * (-len(raw) % 4)
