# SPDX-License-Identifier: Apache-2.0
"""The guest's kernel and driver: a Debian 6.12 kernel and `labaccel.ko`, kept in a cache, never installed.

The cache is `$HOTPLUGCTL_LAB_CACHE`, or `hotplugctl-lab` in the user's cache folder. It holds
`kernel-VERSION/` (image, modules and headers as unpacked) and `driver-VERSION-HASH/`, HASH that of the
driver's sources. Each is made under another name and renamed when complete. A cached kernel is used as
it is, also when the archive has a newer one: delete the cache to renew it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEBIAN_PACKAGES = (
    "qemu-system-x86",
    "busybox-static",
    "udev",
    "kmod",
    "pciutils",
    "procps",
    "xz-utils",
    "gcc",
    "make",
)
SERIES = "6.12"
SOURCES = Path(__file__).parent / "labaccel"
# Not -rt, -cloud, -dbg or -unsigned: their names go on after the version or after amd64.
IMAGE = re.compile(rf"linux-image-({re.escape(SERIES)}\.[0-9.]+(?:-\d+)?(?:\+deb\w+)?-amd64)")


class LabUnavailable(Exception):  # noqa: N818 - a state of this machine, not a mistake
    """The lab cannot run on this machine; the text says why and what to do."""


@dataclass(frozen=True)
class Kernel:
    """What a guest boots: `version` as `uname -r` says it, and where its files are on this machine."""

    version: str
    image: Path
    modules: Path
    driver: Path

    def module(self, name: str) -> Path:
        """The file of one module of this kernel, compressed or not."""
        for found in self.modules.glob(f"kernel/**/{name}.ko*"):
            return found
        raise LabUnavailable(f"the kernel {self.version} has no module {name}")


def missing() -> list[str]:
    """The Debian packages of DEBIAN_PACKAGES that are not installed here."""
    asked = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *DEBIAN_PACKAGES]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        raise LabUnavailable("the lab needs Debian: it takes its kernel from Debian packages") from None
    installed = {line.split()[0] for line in answer.splitlines() if line.endswith(" installed")}
    return [package for package in DEBIAN_PACKAGES if package not in installed]


def cache() -> Path:
    """The cache folder, created if need be."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("HOTPLUGCTL_LAB_CACHE") or Path(base) / "hotplugctl-lab").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prepare() -> Kernel:
    """The kernel with its driver, out of the cache or newly made; raises LabUnavailable."""
    if absent := missing():
        raise LabUnavailable(f"missing Debian packages: apt-get install {' '.join(absent)}")
    folder = cache()
    with _locked(folder):
        version = _newest(path.name.removeprefix("kernel-") for path in folder.glob("kernel-*"))
        if version is None:
            version = _newest(_offered())
        if version is None:
            raise LabUnavailable(f"apt knows no linux-image-{SERIES}.*-amd64: run apt-get update as root, or add a "
                                 "Debian suite that has it (bookworm-security, bookworm-backports, trixie)")
        root = _once(folder / f"kernel-{version}", lambda target: _unpack(version, target))
        sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir())))
        built = _once(folder / f"driver-{version}-{sources.hexdigest()[:16]}",
                      lambda target: _build(version, root, target))
    return Kernel(version, root / f"boot/vmlinuz-{version}", root / f"lib/modules/{version}", built / "labaccel.ko")


def _offered() -> Iterator[str]:
    """Kernel versions that apt could download now."""
    names = subprocess.run(["apt-cache", "pkgnames", f"linux-image-{SERIES}."], capture_output=True, text=True,
                           check=False).stdout.split()
    # pkgnames also lists names that are only mentioned; policy of a real one has a candidate.
    found = {match[1] for name in names if (match := IMAGE.fullmatch(name))}
    shown = subprocess.run(["apt-cache", "madison", *(f"linux-image-{version}" for version in found)],
                           capture_output=True, text=True, check=False).stdout
    yield from (version for version in found if f"linux-image-{version} " in shown)


def _newest(versions: Iterator[str]) -> str | None:
    """The highest by its numbers: 6.12.100 comes after 6.12.99."""
    return max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)], default=None)


def _unpack(version: str, target: Path) -> None:
    """Download and unpack the packages of one kernel into `target`, ready to boot and to build against."""
    base = version.removesuffix("-amd64")
    packages = [f"linux-image-{version}", f"linux-headers-{version}", f"linux-headers-{base}-common",
                f"linux-kbuild-{base}"]
    # apt drops to its own user for downloads, which cannot write here.
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    target.mkdir()
    with tempfile.TemporaryDirectory(dir=target) as debs:
        _call(["apt-get", *sandbox, "-q", "download", *packages], "cannot download the kernel", cwd=Path(debs))
        for deb in sorted(Path(debs).glob("*.deb")):
            _call(["dpkg", "-x", str(deb), str(target)], f"cannot unpack {deb.name}")
    if not (target / "lib").exists():  # a suite whose packages put everything under /usr
        (target / "lib").symlink_to("usr/lib")
    _call(["depmod", "-b", str(target), version], "cannot index the kernel's modules")
    # With vmlinux there, a module build wants pahole for type information that nobody here reads.
    (target / f"usr/src/linux-headers-{version}/vmlinux").unlink(missing_ok=True)


def _build(version: str, root: Path, target: Path) -> None:
    """Build labaccel.ko against the unpacked headers into `target`."""
    shutil.copytree(SOURCES, target)
    headers = root / f"usr/src/linux-headers-{version}"
    # The headers' own Makefile includes the common one from /usr/src, where nothing is installed.
    common = root / f"usr/src/linux-headers-{version.removesuffix('-amd64')}-common"
    (headers / "Makefile").write_text(f"include {common}/Makefile\n")
    _call(["make", "-C", str(headers), f"M={target}", "modules"], "cannot build the driver labaccel")


def _call(argv: list[str], complaint: str, cwd: Path | None = None) -> None:
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        raise LabUnavailable(f"{complaint}: {' '.join(argv)} gave {done.returncode}:\n{done.stdout[-2000:]}")


def _once(path: Path, make: Callable[[Path], None]) -> Path:
    """`path`, made whole under another name first unless it is there."""
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as scratch:
            unfinished = Path(scratch) / path.name
            make(unfinished)
            unfinished.rename(path)
    return path


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone in the cache; what a killed run left unfinished is cleared away."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(".making-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
