"""The real kubectl for tests: the one on PATH, else Debian's, unpacked into the lab's cache and never installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from .lab.kernel import LabUnavailable, _call, _locked, _once, cache


def kubectl() -> str:
    """Its path. Skips when there is none, or fails where HOTPLUGCTL_REQUIRE_LAB=1 says that there must be."""
    if (found := shutil.which("kubectl")) is not None:
        return found
    try:
        folder = cache()
        with _locked(folder):
            return str(_once(folder / "kubernetes-client", _unpack) / "usr/bin/kubectl")
    except (LabUnavailable, OSError) as error:
        if os.environ.get("HOTPLUGCTL_REQUIRE_LAB") == "1":
            pytest.fail(f"no kubectl: {error}", pytrace=False)
        pytest.skip(f"no kubectl: {error}")


def _unpack(target: Path) -> None:
    """Beside another package's kubectl it could not be installed: both want /usr/bin/kubectl."""
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    target.mkdir()
    with tempfile.TemporaryDirectory(dir=target) as debs:
        _call(["apt-get", *sandbox, "-q", "download", "kubernetes-client"], "cannot download kubectl", cwd=Path(debs))
        for deb in Path(debs).glob("*.deb"):
            _call(["dpkg", "-x", str(deb), str(target)], f"cannot unpack {deb.name}")
    if not os.access(target / "usr/bin/kubectl", os.X_OK):
        raise LabUnavailable("Debian's kubernetes-client has no usr/bin/kubectl")
