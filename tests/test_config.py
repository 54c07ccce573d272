"""Settings: which file wins, what an error says, and whose files root obeys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotplugctl import config
from hotplugctl.errors import Exit, HotplugError


@pytest.fixture(autouse=True)
def _nothing_else(root_owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ETC", root_owned / "etc")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root_owned / "home"))
    for name in list(os.environ):
        if name.startswith("HOTPLUGCTL_"):
            monkeypatch.delenv(name)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_any_file_the_built_in_settings_hold() -> None:
    assert config.settings() == config.Settings()


def test_the_nearer_file_wins_and_conf_d_adds(root_owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root_owned / "etc/config.yaml", "budgets: {add: 5s}\nscheduler: slurm\n")
    write(root_owned / "etc/conf.d/10.yaml", "budgets: {add: 7s}\n")
    assert (config.settings().budget_add, config.settings().scheduler) == (7.0, "slurm")
    write(root_owned / "home/hotplugctl/config.yaml", "budgets: {add: 9s}\n")
    assert (config.settings().budget_add, config.settings().scheduler) == (9.0, "auto")
    monkeypatch.setenv("HOTPLUGCTL_CONFIG", str(write(root_owned / "env.yaml", "budgets: {add: 11s}\n")))
    assert config.settings().budget_add == 11.0
    assert config.settings(str(write(root_owned / "flag.yaml", "budgets: {add: 13s}\n"))).budget_add == 13.0


def test_the_environment_wins_over_files_and_says_so(root_owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root_owned / "etc/config.yaml", "scheduler: slurm\n")
    monkeypatch.setenv("HOTPLUGCTL_SCHEDULER", "none")
    found = config.settings()
    assert found.scheduler == "none"
    assert ("scheduler", "none", "HOTPLUGCTL_SCHEDULER") in config.shown(found)


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(HotplugError, match="no configuration file /no/such") as caught:
        config.settings("/no/such")
    assert caught.value.exit is Exit.USAGE


@pytest.mark.parametrize(("text", "says"), [
    ("budgets: {add: fast}", ":1: expected a duration"),
    ("a: [", "expected"),
    ("budgts: {}", "no key named budgts (budgets?)"),
    ("scheduler: slrum", "none of auto, none, slurm, kubernetes (slurm?)"),
    ("scheduler: none\nscheduler: slurm", "there twice"),
    ("labels: [{when: {}}]", "set is missing"),
    ("- a\n- b", "expected a mapping"),
    ("slots: {0000:3a:01.0: 5}\nspool: [", ":3: "),
])
def test_a_broken_file_is_named_with_its_line(root_owned: Path, text: str, says: str) -> None:
    path = write(root_owned / "bad.yaml", text)
    with pytest.raises(HotplugError) as caught:
        config.settings(str(path))
    assert caught.value.exit is Exit.USAGE
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_an_unquoted_address_stays_an_address(root_owned: Path) -> None:
    path = write(root_owned / "slots.yaml", "slots: {0000:17:00.0: no}\n")
    assert config.settings(str(path)).slots == {"0000:17:00.0": "no"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses what others can write")
@pytest.mark.parametrize(("what", "mode", "owner"), [
    ("file", 0o666, 0), ("file", 0o664, 0), ("folder", 0o777, 0), ("file", 0o644, 65534), ("folder", 0o755, 65534),
])
def test_root_refuses_what_others_can_write(root_owned: Path, what: str, mode: int, owner: int) -> None:
    path = write(root_owned / "folder/config.yaml", "scheduler: none\n")
    part = path if what == "file" else path.parent
    os.chown(part, owner, -1)
    part.chmod(mode)
    with pytest.raises(HotplugError, match=r"refusing .*config\.yaml") as caught:
        config.settings(str(path))
    assert str(part) in str(caught.value)


def test_profiles_and_rules_are_checked_the_same_way(root_owned: Path) -> None:
    path = write(root_owned / "etc/vendors.d/mine.yaml", "schema: hotplugctl.profile/1\n")
    assert config.authored("vendors.d") == (path,)
    assert config.authored("rules.d") == ()
    if os.geteuid() == 0:
        path.chmod(0o666)
        with pytest.raises(HotplugError, match="refusing"):
            config.authored("vendors.d")
