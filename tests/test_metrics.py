"""What other systems read: Prometheus text, feature files, and the systemd unit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.errors import HotplugError
from hotplugctl.model import Change, ChangeKind, Device, State
from hotplugctl.plugs import labels
from hotplugctl.plugs.files import write_whole
from hotplugctl.plugs.metrics import Metrics, render

UNIT = Path(__file__).parent.parent / "hotplugctl" / "data" / "hotplugctl-watch.service"
CARD = Device(address="0000:01:00.0", slot="3", profile="lab", model="edu", state=State.READY)


def change(kind: ChangeKind, device: Device | None = CARD, **more: Any) -> Change:
    base: dict[str, Any] = {"id": "x", "time": "t", "monotonic": 0.0, "kind": kind, "device": device}
    return Change(**base | more)


def samples(metrics: Metrics) -> dict[str, float]:
    """Parsed by the grammar of the exposition format: each line is a comment or NAME{LABELS} VALUE."""
    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
    line = re.compile(rf"([a-z_]+(?:\{{{label}(?:,{label})*\}})?) (-?[0-9.]+)")
    text = render(metrics)
    assert text.endswith("\n")
    found: dict[str, float] = {}
    for row in text.splitlines():
        if row.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) hotplugctl_[a-z_]+ \S.*", row), row
            continue
        match = line.fullmatch(row)
        assert match, row
        assert match[1] not in found, f"said twice: {row}"
        found[match[1].removeprefix("hotplugctl_")] = float(match[2])
    return found


def test_states_are_those_of_the_devices_as_last_seen() -> None:
    metrics = Metrics()
    other = replace(CARD, address="0000:02:00.0", slot="4", state=State.BOUND)
    metrics.observe(change(ChangeKind.SNAPSHOT, None, standing=(CARD, other), devices=2))
    metrics.observe(change(ChangeKind.READY, replace(other, state=State.READY), before=State.BOUND, after=State.READY))
    found = samples(metrics)
    assert (found['devices{state="ready"}'], found['devices{state="bound"}']) == (2, 0)
    assert found['device_state{address="0000:02:00.0",slot="4",profile="lab",model="edu",state="ready"}'] == 1
    assert found['transitions_total{from="bound",to="ready"}'] == 1
    assert (found['changes_total{kind="ready"}'], found['changes_total{kind="failed"}']) == (1, 0)


def test_a_slot_shows_the_card_that_is_in_it_and_not_the_one_before() -> None:
    metrics = Metrics()
    for device in (
        replace(CARD, address=None, state=State.DETECTED), CARD, replace(CARD, state=State.REMOVED),
        replace(CARD, address="0000:05:00.0"), replace(CARD, address="0000:05:00.1"),
    ):
        metrics.observe(change(ChangeKind.PROGRESS, device))
    assert sorted(address for _, address in metrics.devices) == ["0000:05:00.0", "0000:05:00.1"]


def test_a_card_counts_once_in_the_histograms_whatever_it_said_on_its_way() -> None:
    metrics = Metrics()
    metrics.observe(change(ChangeKind.PROGRESS, timings={"bound": 0.2}))
    metrics.observe(change(ChangeKind.READY, timings={"bound": 0.2, "ready": 2.5}))
    metrics.observe(change(ChangeKind.READY, timings={"bound": 0.02, "ready": 1000.0}))
    metrics.observe(change(ChangeKind.REMOVED, timings={"removal": 0.01}))
    found = samples(metrics)
    assert [found[f'stage_seconds_bucket{{stage="ready",le="{limit}"}}'] for limit in ("2", "3", "300", "+Inf")] == [
        0, 1, 1, 2]
    assert found['stage_seconds_bucket{stage="bound",le="0.025"}'] == 1
    assert (found['stage_seconds_count{stage="bound"}'], found['stage_seconds_sum{stage="ready"}']) == (2, 1002.5)
    assert found['stage_seconds_bucket{stage="removal",le="0.01"}'] == 1


def test_whatever_a_device_calls_itself_the_text_stays_in_form() -> None:
    metrics = Metrics()
    odd = 'a"b\\c\nd} 1\n# é'
    metrics.observe(change(ChangeKind.ADDED, replace(CARD, model=odd, labels={"my pool": odd, "1/x": "y"})))
    metrics.spool_depth, metrics.spool_dropped, metrics.refused = {"https://h": 7}, 3, {"https://h": 1}
    metrics.observe(change(ChangeKind.RESYNC, None, lost=12))
    found = samples(metrics)
    said = r'a\"b\\c\nd} 1\n# é'
    assert found[f'device_state{{address="0000:01:00.0",slot="3",profile="lab",model="{said}",state="ready",'
                 f'label_1_x="y",label_my_pool="{said}"}}'] == 1
    assert (found["events_lost_total"], found["spool_dropped_total"]) == (12, 3)
    assert (found['spool_events{sink="https://h"}'], found['sink_refused_total{sink="https://h"}']) == (7, 1)


def test_a_reader_sees_the_old_file_or_the_new_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "hotplugctl.prom"
    texts = {letter * 200_000 for letter in "ab"}
    write_whole(str(path), "a" * 200_000)
    stop = threading.Event()
    torn: list[str] = []

    def read() -> None:
        while not stop.is_set():
            if (text := path.read_text()) not in texts:
                torn.append(text[:20])

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(200):
        write_whole(str(path), "ab"[n % 2] * 200_000)
    stop.set()
    reader.join()
    assert torn == []
    assert (os.listdir(tmp_path), path.stat().st_mode & 0o777) == (["hotplugctl.prom"], 0o644)


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HotplugError, match=r"cannot write .*: No such file or directory"):
        write_whole(str(tmp_path / "no" / "file"), "x")


def test_labels_are_those_of_the_devices_that_are_ready() -> None:
    cards = [
        replace(CARD, labels={"pool": "training", "batch": "2026-11"}),
        replace(CARD, labels={"pool": "inference", "example.com/rack": "r1"}),
        replace(CARD, labels={"pool": "training"}),
        replace(CARD, labels={"pool": "broken"}, state=State.FAILED),
    ]
    assert labels.render(cards, expires="2026-11-29T16:24:08Z").splitlines() == [
        "# written by hotplugctl watch",
        "# +expiry-time=2026-11-29T16:24:08Z",
        "feature.node.kubernetes.io/hotplugctl-lab.ready=3",
        "feature.node.kubernetes.io/hotplugctl-batch=2026-11",
        "feature.node.kubernetes.io/hotplugctl-batch.2026-11=1",
        "example.com/rack=r1",
        "example.com/rack.r1=1",
        "feature.node.kubernetes.io/hotplugctl-pool.inference=1",
        "feature.node.kubernetes.io/hotplugctl-pool.training=2",
    ]
    assert labels.render([]) == "# written by hotplugctl watch\n"


@pytest.mark.parametrize(("key", "value"), [
    ("pool", "two words"), ("pool", "x" * 64), ("example.com/-pool", "x"), ("UPPER.example/pool", "x"), ("a/b/c", "x"),
    ("pool", "x\n# +no-label\nother=1"), ("pool\nother", "x"),
])
def test_what_kubernetes_allows_in_no_label_is_a_comment(key: str, value: str) -> None:
    text = labels.render([replace(CARD, labels={key: value}, profile=None)])
    assert all(line.startswith("# ") and not line.startswith("# +") for line in text.splitlines()), text


def test_a_feature_file_stays_below_the_size_that_is_ignored() -> None:
    cards = [replace(CARD, labels={f"key{n}": "v" * 60}) for n in range(2000)]
    text = labels.render(cards)
    assert 60_000 < len(text) <= 64 << 10
    assert text.endswith("\n")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_has_no_complaint_about_the_unit(tmp_path: Path) -> None:
    unit = shutil.copy(UNIT, tmp_path / UNIT.name)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_takes_a_clean_stop_for_success_and_keeps_what_others_share() -> None:
    said = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match("[A-Z]", line))
    assert (said["SuccessExitStatus"], said["Restart"]) == ("130", "on-failure")
    assert said["RuntimeDirectoryPreserve"] == "yes"
    assert {"PrivateDevices", "ProtectClock", "DeviceAllow", "ProtectKernelLogs", "PrivateNetwork"}.isdisjoint(said)
