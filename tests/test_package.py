"""The wheel: what it holds, and that what is installed from it runs and lies where the system looks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hotplugctl import __version__

from .generate import everything

ROOT = everything.ROOT
DEMO = "hotplugctl/data/demo.tar.gz"
# Where the system looks for what is not Python.
SHARED = {
    **{f"man/{page.name}": f"share/man/man{page.suffix[1:]}/{page.name}" for page in (ROOT / "man").glob("*.[1-9]")},
    "completions/hotplugctl.bash": "share/bash-completion/completions/hotplugctl",
    "completions/_hotplugctl": "share/zsh/site-functions/_hotplugctl",
    "completions/hotplugctl.fish": "share/fish/vendor_completions.d/hotplugctl.fish",
}


def python(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=300, env=os.environ | environment,
        cwd="/",
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    python("build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix it is installed under. --ignore-installed leaves the development install alone."""
    prefix = tmp_path_factory.mktemp("installed")
    python(
        "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", "--disable-pip-version-check",
        "--no-warn-script-location", "--prefix", str(prefix), str(wheel),
    )
    return prefix


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_answer_that_the_readme_shows_is_the_one_that_the_demo_gives() -> None:
    block = (ROOT / "README.md").read_text().split("says why one of them failed:\n\n", 1)[1].split("\n\n##", 1)[0]
    shown = [" ".join(line.split()).removesuffix("...").strip() for line in block.splitlines() if line.strip()]
    said = " ".join(subprocess.run(
        [sys.executable, "-m", "hotplugctl", "diagnose", "--root", "demo"], capture_output=True, text=True, check=False,
    ).stdout.split())
    assert len(shown) == 5
    assert [line for line in shown if line not in said] == []


def test_the_wheel_holds_every_module_and_all_data(contents: dict[str, bytes]) -> None:
    package = ROOT / "hotplugctl"
    wanted = [file for kind in ("*.py", "*.yaml", "*.json") for file in package.rglob(kind)]
    names = {file.relative_to(ROOT).as_posix() for file in wanted}
    assert names | {"hotplugctl/py.typed"} <= set(contents)
    assert {name for name in everything.made() if name.startswith("hotplugctl/")} <= names
    if (ROOT / DEMO).exists():
        assert contents[DEMO] == (ROOT / DEMO).read_bytes()


def test_the_wheel_holds_no_tests_and_no_leftovers(contents: dict[str, bytes]) -> None:
    tops = {name.split("/")[0] for name in contents}
    assert tops == {"hotplugctl", f"hotplugctl-{__version__}.dist-info", f"hotplugctl-{__version__}.data"}
    assert [name for name in contents if "test" in name or name.endswith((".pyc", ".orig", ".partial"))] == []


def test_the_wheel_says_what_it_is(contents: dict[str, bytes]) -> None:
    metadata = contents[f"hotplugctl-{__version__}.dist-info/METADATA"].decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.10" in metadata
    assert f"hotplugctl-{__version__}.dist-info/licenses/LICENSE" in contents


@pytest.mark.parametrize("source", SHARED)
def test_man_pages_and_completions_are_installed_where_they_are_looked_for(installed: Path, source: str) -> None:
    assert (installed / SHARED[source]).read_bytes() == (ROOT / source).read_bytes()


def test_what_is_installed_runs(installed: Path) -> None:
    [package] = installed.rglob("hotplugctl/__init__.py")

    def says(*words: str) -> str:
        return subprocess.run(
            [installed / "bin" / "hotplugctl", *words], capture_output=True, text=True, timeout=60, cwd="/", check=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package.parent.parent)},
        ).stdout

    assert says("--version") == f"hotplugctl {__version__}\n"
    assert "bar_space_exhausted" in says("diagnose", "--explain", "bar_space_exhausted")
    if (ROOT / DEMO).exists():
        assert "hotplugctl.devices/1" in says("list", "--root", "demo", "-o", "json")
