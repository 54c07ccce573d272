"""The warm-up: once a boot and binding, remembered, and a failure said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotplugctl import config, records
from hotplugctl.host.live import Live
from hotplugctl.model import Device, Driver, Node
from hotplugctl.warming import warm

CARD = Device(address="0000:01:00.0", serial="A", driver=Driver("labaccel"),
              nodes=(Node("/dev/accel/accel0", 261, 0, "root", "render", "0660"),))


@pytest.fixture
def settings(root_owned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Settings:
    """A warm-up that counts its runs."""
    monkeypatch.setattr(records, "RUN", str(tmp_path / "run"))
    script = root_owned / "warm"
    script.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/count\n')
    script.chmod(0o755)
    return config.Settings(warmup={"argv": [str(script), "{address}"], "timeout": 10.0})


def test_a_card_is_warmed_up_once_a_boot_and_binding(settings: config.Settings, tmp_path: Path) -> None:
    host = Live()
    assert warm(host, CARD, settings).ran
    assert not warm(host, CARD, settings).ran
    bound_anew = replace(CARD, nodes=(Node("/dev/accel/accel1", 261, 1, "root", "render", "0660"),))
    assert warm(host, bound_anew, settings).ran
    assert warm(host, replace(CARD, serial="B"), settings).ran
    assert (tmp_path / "count").read_text().splitlines() == ["0000:01:00.0"] * 3


def test_without_a_configured_warm_up_nothing_runs() -> None:
    assert not warm(Live(), CARD, config.Settings()).ran


def test_a_warm_up_that_is_not_there_is_a_failure_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RUN", str(tmp_path / "run"))
    warmed = warm(Live(), CARD, config.Settings(warmup={"argv": ["no-such-warmer"]}))
    assert (warmed.ran, warmed.passed) == (True, False)
    assert "no-such-warmer" in warmed.said
