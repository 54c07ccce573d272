# SPDX-License-Identifier: Apache-2.0
"""The real kubectl in the guest, against an API server of our own: a mock, since no real one can be had here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kubectl import kubectl

from .boot import PROJECT
from .draining import EXIT, Background, begun, bound, drain, hold, node, nothing_is_left, plugged, ready
from .guest import Guest

pytestmark = pytest.mark.lab
FOLDER = "/var/tmp/kube"
CONFIG = {"KUBECONFIG": f"{FOLDER}/kubeconfig"}
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


@pytest.fixture
def node_of_cluster(guest: Guest) -> Iterator[Guest]:
    """A guest that is a node of a cluster whose API server runs in it; slot 1 has a ready card."""
    guest.run(f"mkdir -p {FOLDER}; ln -sf {kubectl()} /usr/local/bin/kubectl")
    server = guest.start(f"cd {PROJECT} && exec {sys.prefix}/bin/python -m tests.kube_api 0 {FOLDER} lab")
    guest.run("hostname lab")
    guest.wait(lambda: guest.find(CONFIG["KUBECONFIG"]), 40, "the API server is up")
    address = plugged(guest, 1)
    put(guest, "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "slice"}, "spec": {
        "driver": "lab.example.com", "nodeName": "lab", "pool": {"name": "lab", "generation": 1},
        "devices": [{"name": "dev-0", "attributes": {"resource.kubernetes.io/pciBusID": {"string": address}}}]}})
    yield guest
    server.signal(9)
    guest.run(f"rm -rf {FOLDER} /usr/local/bin/kubectl /var/lib/kubelet")


def put(guest: Guest, path: str, body: dict[str, Any]) -> None:
    guest.run(f"kubectl create --raw {path} -f -", timeout=60, env=CONFIG, stdin=json.dumps(body))


def listed(guest: Guest, path: str) -> list[dict[str, Any]]:
    found = guest.run(f"kubectl get --raw {path}", timeout=60, env=CONFIG)
    items: list[dict[str, Any]] = json.loads(found.stdout)["items"]
    return items


def test_one_card_is_closed_by_a_taint_while_its_work_ends_and_opened_again(node_of_cluster: Guest) -> None:
    guest = node_of_cluster
    address = guest.address(1)
    work = hold(guest, node(guest, address), "exec sleep 600")
    draining = Background(guest, "slot:1", "--yes", "--timeout", "5m", env=CONFIG)
    begun(guest)
    guest.wait(lambda: listed(guest, RULES), 60, "the rule is there")
    [rule] = listed(guest, RULES)
    assert rule["spec"]["taint"]["effect"] == "NoSchedule", "what runs there stays"
    assert rule["spec"]["deviceSelector"]["device"] == "dev-0"
    assert draining.running()
    work.signal(15)
    result = draining.result()
    assert result.status == 0, result.stderr
    assert not bound(guest, address)
    drain(guest, "slot:1", "--undo", env=CONFIG)
    assert listed(guest, RULES) == []
    ready(guest, 1)
    nothing_is_left(guest)


def test_an_api_server_that_is_gone_does_not_hang_the_drain(node_of_cluster: Guest) -> None:
    guest = node_of_cluster
    put(guest, "/behave", {"hang": True})
    error = drain(guest, "slot:1", "--yes", code=EXIT["refused"], env=CONFIG)
    assert [blocker["lifted_by"] for blocker in error["blockers"]] == ["--scheduler none"]
