"""A drain's dealings with Kubernetes, by the real kubectl with an API server on loopback."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.errors import Exit, HotplugError
from hotplugctl.host import Host
from hotplugctl.model import Accelerator, Kind, Placement, Unknown, Work
from hotplugctl.plugs import kubernetes
from hotplugctl.plugs.kubernetes import podresources
from hotplugctl.plugs.kubernetes.api import Api
from hotplugctl.plugs.kubernetes.kubelet import CHECKPOINT
from hotplugctl.plugs.kubernetes.scheduler import Kubernetes

from . import kubelet
from .kube_api import CLAIMS, RULES, SLICES, Cluster, Served, served
from .kubectl import kubectl
from .machine import MachineTree

CARD = Accelerator("0000:c1:00.0", ("/dev/davinci1",), ("1",), profile="ascend")
ASCEND = "huawei.com/Ascend910"
DRIVER, POOL = "npu.huawei.com", "n1"
BUS = "resource.kubernetes.io/pciBusID"
DEADLINE = 15.0     # not met in a test that passes, however busy the machine is
KEPT = {"node": "n1", "token": "t", "cordon": True}


class Site:
    """A node n1 of a cluster, and what a drain keeps on its disk."""

    def __init__(self, folder: Path, cluster: Cluster, server: Served) -> None:
        self.machine = MachineTree(folder / "n1")
        self.cluster = cluster
        self.server = server
        self.kept: list[dict[str, Any]] = []
        self.api = Api(kubectl(), str(server.kubeconfig))

    @property
    def scheduler(self) -> Kubernetes:
        """Another process each time: nothing but what was kept is remembered."""
        return Kubernetes(self.host, self.api)

    @property
    def host(self) -> Host:
        """The machine; its name is its folder's."""
        return self.machine.host

    @property
    def ours(self) -> dict[str, Any]:
        return self.kept[-1] if self.kept else {}

    def placement(self, scope: str = "device", card: Accelerator = CARD) -> Placement:
        return self.scheduler.placement(card, scope, self.ours)

    def cordon(self, scope: str = "device", deadline: float = DEADLINE) -> None:
        self.scheduler.cordon(CARD, scope, self.ours, self.keep, deadline)

    def uncordon(self, deadline: float = DEADLINE) -> None:
        self.scheduler.uncordon(self.ours, deadline)

    def keep(self, ours: Any) -> None:
        self.kept.append(dict(ours))

    def plugin(self, *entries: dict[str, Any], offered: tuple[str, ...] = ("Ascend910-0", "Ascend910-1")) -> None:
        """A device plugin, and whom the kubelet gave its devices."""
        self.machine.put(CHECKPOINT, kubelet.checkpoint(*entries, offered={ASCEND: offered}))

    def dra(self) -> None:
        """A driver of dynamic resource allocation that publishes the card and another one."""
        self.cluster.slice("s", DRIVER, POOL, [
            {"name": f"npu-{n}", "attributes": {BUS: {"string": f"0000:c{n}:00.0"}}} for n in (1, 2)])

    def claim(self, pod: str, device: str) -> None:
        """A running pod with a claim for a device."""
        self.cluster.put(CLAIMS, f"{pod}-npu", "default", status={
            "allocation": {"devices": {"results": [
                {"request": "npu", "driver": DRIVER, "pool": POOL, "device": device}]}},
            "reservedFor": [{"resource": "pods", "name": pod}]})
        self.cluster.pod(pod, spec={"resourceClaims": [{"name": "npu", "resourceClaimTemplateName": "t"}]},
                         status={"resourceClaimStatuses": [{"name": "npu", "resourceClaimName": f"{pod}-npu"}]})

    def node(self) -> dict[str, Any]:
        """The node as it is now."""
        found = self.cluster.get("nodes", "n1")
        assert found is not None
        return found

    def edit_node(self, manager: str, **spec: Any) -> None:
        """Another client changes the node's spec."""
        node = self.node()
        node["spec"] |= spec
        self.cluster.answer("PUT", f"/api/v1/nodes/n1?fieldManager={manager}", node)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path) as (cluster, server):
        yield Site(tmp_path, cluster, server)


def ids(placement: Placement) -> list[str]:
    assert isinstance(placement.work, tuple), placement.work
    return [work.id for work in placement.work]


def blocked(placement: Placement) -> list[tuple[str, str | None]]:
    return [(blocker.what, blocker.lifted_by) for blocker in placement.blockers]


# Who is on the card.


def test_the_pod_that_the_kubelet_gave_the_card_to_is_the_work(site: Site) -> None:
    mine, other = site.cluster.pod("mine", owner="StatefulSet/train"), site.cluster.pod("other")
    site.plugin(
        kubelet.entry(mine["metadata"]["uid"], ASCEND, ["Ascend910-0"], kubelet.granted(["/dev/davinci1"])),
        kubelet.entry(other["metadata"]["uid"], ASCEND, ["Ascend910-1"], kubelet.granted(["/dev/davinci10"])),
    )
    placement = site.placement("node")
    assert placement.work == (Work("default/mine", "StatefulSet train", None, "Running",
                                   "kubectl delete pod mine -n default", 1767323045.0),)
    assert (placement.closed, placement.ours, placement.blockers) == (False, False, ())
    assert placement.where == f"node n1, resource {ASCEND}, device Ascend910-1"


def test_a_finished_pod_holds_nothing_and_one_that_is_gone_is_told(site: Site) -> None:
    done = site.cluster.pod("done", phase="Succeeded")
    site.plugin(kubelet.entry(done["metadata"]["uid"], ASCEND, ["Ascend910-1"]),
                kubelet.entry("0000-gone", ASCEND, ["Ascend910-1"]))
    placement = site.placement("node")
    assert ids(placement) == []
    assert placement.warnings == (
        "the kubelet still counts the card to pod 0000-gone, which the API server does not know",)


def test_static_and_daemon_pods_are_told_apart_and_not_evicted(site: Site) -> None:
    static = site.cluster.pod("edge-n1", owner="Node/n1", metadata={"annotations": {
        "kubernetes.io/config.mirror": "f00d", "kubernetes.io/config.hash": "f00d"}})
    daemon = site.cluster.pod("burn-x", owner="DaemonSet/burn")
    site.plugin(kubelet.entry("f00d", ASCEND, ["Ascend910-1"]),     # the kubelet knows it by its file's hash
                kubelet.entry(daemon["metadata"]["uid"], ASCEND, ["Ascend910-1"]))
    placement = site.placement("node")
    assert isinstance(placement.work, tuple)
    assert [(work.id, work.name) for work in placement.work] == [
        ("default/burn-x", "DaemonSet burn"), ("default/edge-n1", "static pod")]
    assert len([one for one in placement.warnings if "does not help" in one]) == 2
    refusals = [site.scheduler.stop(work, 5) for work in placement.work]
    assert "DaemonSet burn would start it again" in str(refusals[0])
    assert "manifest folder" in str(refusals[1])
    assert site.cluster.writes() == []
    assert static["metadata"]["uid"] != "f00d"


def test_a_pod_that_may_have_the_card_is_a_warning_and_no_work(site: Site) -> None:
    pod = site.cluster.pod("opaque")
    site.plugin(kubelet.entry(pod["metadata"]["uid"], ASCEND, ["b5c1f0"]))
    placement = site.placement("node")
    assert ids(placement) == []
    assert placement.warnings == ("pod default/opaque has a device that may be this card: the names do not tell",)


def test_a_pod_about_to_start_is_a_warning(site: Site) -> None:
    site.cluster.pod("soon", phase="Pending", spec={"containers": [{"resources": {"limits": {ASCEND: "1"}}}]})
    site.plugin()
    assert site.placement("node").warnings == (
        "pod default/soon is about to start on this node, and may get this card",)


def test_a_node_without_any_device_has_nothing_to_close(site: Site) -> None:
    assert site.placement().closed is None
    assert site.placement().blockers == ()


def test_the_checkpoint_of_another_form_leaves_the_work_unknown(site: Site) -> None:
    site.machine.put(CHECKPOINT, "{}")
    placement = site.placement("node")
    assert isinstance(placement.work, Unknown)
    assert placement.closed is False


def test_many_pods_are_read_page_by_page(site: Site) -> None:
    last = [site.cluster.pod(f"p{n:03}")["metadata"]["uid"] for n in range(120)][-1]
    site.plugin(kubelet.entry(last, ASCEND, ["Ascend910-1"]))
    assert ids(site.placement("node")) == ["default/p119"]
    assert len([path for _, path in site.cluster.requests if path.startswith("/api/v1/pods?")]) == 3


def test_a_pod_whose_claim_has_the_card_is_the_work(site: Site) -> None:
    site.dra()
    site.claim("mine", "npu-1")
    site.claim("other", "npu-2")
    placement = site.placement()
    assert ids(placement) == ["default/mine"]
    assert placement.where == f"node n1, driver {DRIVER}, pool {POOL}, device npu-1"


# The node.


def test_the_node_is_found_by_its_label_and_by_its_address(site: Site) -> None:
    site.cluster.drop("nodes", "n1")
    site.cluster.node("ip-10-0-0-7", metadata={"labels": {"kubernetes.io/hostname": "n1"}})
    assert site.placement("node").where == "node ip-10-0-0-7"
    site.cluster.drop("nodes", "ip-10-0-0-7")
    for n in range(60):
        site.cluster.node(f"other-{n}")
    site.cluster.node("worker", status={"addresses": [{"type": "Hostname", "address": "N1"}]})
    assert site.placement("node").where == "node worker"


def test_a_machine_that_is_no_node_is_a_blocker(site: Site) -> None:
    site.cluster.drop("nodes", "n1")
    placement = site.placement("node")
    assert isinstance(placement.closed, Unknown)
    assert blocked(placement) == [("this machine is no node of the cluster", "--scheduler none")]
    with pytest.raises(HotplugError, match="no node of the cluster"):
        site.cordon("node")


def test_a_node_of_the_same_name_in_another_cluster_is_left_alone(site: Site) -> None:
    site.machine.put("/etc/machine-id", "aaaa")
    site.cluster.node(status={"nodeInfo": {"machineID": "bbbb", "bootID": "cccc"}})
    assert blocked(site.placement("node")) == [("node n1 of this cluster is another machine", "--scheduler none")]
    with pytest.raises(HotplugError, match="another machine"):
        site.cordon("node")
    assert site.cluster.writes() == []


# Scope device.


def test_without_rules_for_devices_only_the_node_can_be_cordoned(site: Site) -> None:
    site.plugin()
    assert blocked(site.placement()) == [("only the whole node can be cordoned", "--scope node")]
    site.cluster.behaviour.serves = {}
    assert "DeviceTaintRule" in site.placement().blockers[0].why
    with pytest.raises(HotplugError) as caught:
        site.cordon()
    assert (caught.value.hint, caught.value.exit) == ("--scope node", Exit.FAILED)
    assert (site.cluster.writes(), site.kept) == ([], [])


@pytest.mark.parametrize("versions", [
    {"v1": (RULES, SLICES, CLAIMS)}, {"v1beta2": (RULES, SLICES, CLAIMS), "v1alpha3": (RULES, SLICES)},
    {"v1": (SLICES, CLAIMS), "v1beta1": (SLICES, CLAIMS), "v1alpha3": (RULES,)},
])
def test_a_rule_closes_the_card_alone_while_its_pod_goes_on(site: Site, versions: dict[str, tuple[str, ...]]) -> None:
    site.cluster.behaviour.serves = versions
    site.dra()
    site.claim("mine", "npu-1")
    before = site.cluster.get("pods", "mine", "default")
    assert site.placement().closed is False
    site.cordon()
    [rule] = site.cluster.all(RULES)
    assert rule["spec"] == {"deviceSelector": {"driver": DRIVER, "pool": POOL, "device": "npu-1"},
                            "taint": {"key": "hotplugctl/drain", "effect": "NoSchedule"}}
    assert rule["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "hotplugctl"}
    assert site.ours["token"] in rule["metadata"]["name"]
    placement = site.placement()
    assert (placement.closed, placement.ours, ids(placement)) == (True, True, ["default/mine"])
    assert site.cluster.get("pods", "mine", "default") == before
    assert "unschedulable" not in site.node()["spec"]
    site.uncordon()
    assert site.cluster.all(RULES) == []
    assert site.placement().closed is False


def test_an_interrupted_cordon_is_taken_up_and_undone_wherever_it_ended(site: Site) -> None:
    site.dra()

    def crash(ours: Any) -> None:
        site.keep(ours)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        site.scheduler.cordon(CARD, "device", {}, crash, DEADLINE)
    assert site.cluster.writes() == []
    site.uncordon()                     # of what never came to be
    site.cordon()
    site.cordon()                       # and once more, of what is there
    assert [rule["metadata"]["name"] for rule in site.cluster.all(RULES)] == [site.ours["rules"][0]["name"]]
    assert site.kept[0]["token"] == site.ours["token"]
    site.uncordon()
    site.uncordon()
    assert site.cluster.all(RULES) == []


def test_a_rule_of_ours_that_somebody_has_turned_off_is_not_taken_for_a_closed_card(site: Site) -> None:
    site.dra()
    site.cordon()
    [rule] = site.cluster.all(RULES)
    rule["spec"]["taint"]["effect"] = "None"
    site.cluster.put(RULES, **rule | {"name": rule["metadata"]["name"]})
    assert site.placement().closed is False
    with pytest.raises(HotplugError, match="already exists"):
        site.cordon()
    site.uncordon()
    assert site.cluster.all(RULES) == []


def test_a_card_of_a_cordoned_node_still_gets_its_rule(site: Site) -> None:
    site.dra()
    site.edit_node("admin", unschedulable=True)
    assert (site.placement().closed, site.placement().warnings) == (False, ())
    site.cluster.behaviour.serves = {"v1": (SLICES, CLAIMS)}
    placement = site.placement()
    assert (placement.closed, placement.blockers) == (True, ())
    assert placement.warnings == ("node n1 is cordoned, and not by this drain: it may be opened again",)


def test_only_our_rule_is_taken_away(site: Site) -> None:
    site.dra()
    selector = {"driver": DRIVER, "pool": POOL, "device": "npu-1"}
    spec = {"deviceSelector": selector, "taint": {"key": "sick", "effect": "NoExecute"}}
    site.cluster.put(RULES, "theirs", spec=spec)
    assert (site.placement().closed, site.placement().ours) == (True, False)
    site.cordon()
    name = site.ours["rules"][0]["name"]
    site.uncordon()
    site.cluster.put(RULES, name, spec=spec)      # a stranger under our name
    site.uncordon()
    assert [rule["metadata"]["name"] for rule in site.cluster.all(RULES)] == [name, "theirs"]


def test_a_rule_for_other_devices_does_not_close_the_card(site: Site) -> None:
    site.dra()
    for name, selector in {"a": {"device": "npu-2"}, "b": None, "c": {"pool": POOL, "selectors": [1]}}.items():
        site.cluster.put(RULES, name, spec={"deviceSelector": selector, "taint": {"key": "k", "effect": "NoSchedule"}})
    site.cluster.put(RULES, "d", spec={"deviceSelector": {}, "taint": {"key": "k", "effect": "None"}})
    assert site.placement().closed is False
    site.cluster.put(RULES, "d", spec={"deviceSelector": {}, "taint": {"key": "k", "effect": "NoSchedule"}})
    assert site.placement().closed is True


def test_the_server_foresees_what_clearing_the_card_would_do(site: Site) -> None:
    site.dra()
    site.claim("mine", "npu-1")
    assert site.scheduler.foresee(CARD, DEADLINE) == "1 pod would be evicted if the effect was NoExecute"
    assert site.cluster.all(RULES) == []
    site.cluster.behaviour.effects = ("NoSchedule", "NoExecute")
    assert site.scheduler.foresee(CARD, DEADLINE) is None
    site.cluster.behaviour.serves = {}
    assert site.scheduler.foresee(CARD, DEADLINE) is None


# Scope node.


def test_a_cordon_of_the_node_leaves_its_pods_and_is_undone(site: Site) -> None:
    site.cluster.pod("mine")
    site.plugin()
    site.cordon("node")
    placement = site.placement("node")
    assert (placement.closed, placement.ours) == (True, True)
    assert site.cluster.get("pods", "mine", "default") is not None
    site.cordon("node")
    site.uncordon()
    assert site.node()["spec"] == {}
    assert site.node()["metadata"].get("annotations") == {}
    assert site.placement("node").closed is False
    site.uncordon()


def test_what_others_write_between_our_read_and_our_write_is_kept(site: Site) -> None:
    theirs = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]
    left = [1, 1, 1]

    def busy(method: str, path: str) -> None:
        if method == "PUT" and path == "/api/v1/nodes/n1" and left:
            left.pop()
            node = site.node()
            node["spec"]["taints"] = theirs[: 3 - len(left)]
            node["metadata"].setdefault("labels", {})[f"theirs{len(left)}"] = "1"
            site.cluster.put("nodes", "n1", **node)

    site.cluster.before = busy
    site.cordon("node", 15)
    assert site.node()["spec"] == {"unschedulable": True, "taints": theirs}
    assert site.node()["metadata"]["labels"] == {"theirs0": "1", "theirs1": "1", "theirs2": "1"}
    left[:] = [1]
    site.uncordon()
    assert site.node()["spec"] == {"taints": theirs[:3]}
    assert len(site.node()["metadata"]["labels"]) == 3


def test_a_writer_that_never_rests_ends_at_the_deadline(site: Site) -> None:
    def busy(method: str, path: str) -> None:
        if method == "PUT":
            site.cluster.put("nodes", "n1", **site.node())

    site.cluster.before = busy
    began = time.monotonic()
    with pytest.raises(HotplugError, match="cannot cordon node n1"):
        site.cordon("node", 2)
    assert time.monotonic() - began < 7
    assert "unschedulable" not in site.node()["spec"]


def test_a_node_that_was_cordoned_before_stays_so(site: Site) -> None:
    site.plugin()
    site.edit_node("admin", unschedulable=True)
    assert site.placement("node").warnings == (
        "node n1 is cordoned, and not by this drain: it may be opened again",)
    site.cordon("node")
    site.uncordon()
    assert site.node()["spec"] == {"unschedulable": True}


def test_a_node_that_was_opened_and_cordoned_again_by_somebody_stays_so(site: Site) -> None:
    site.cordon("node")
    site.edit_node("kubectl-cordon", unschedulable=False)
    site.edit_node("kubectl-cordon", unschedulable=True)
    site.uncordon()
    assert site.node()["spec"] == {"unschedulable": True}


def test_a_node_that_somebody_opened_is_closed_again_and_then_opened(site: Site) -> None:
    site.edit_node("admin", unschedulable=True)
    site.cordon("node")
    site.edit_node("admin", unschedulable=False)
    assert site.placement("node").closed is not True
    site.cordon("node")
    assert site.node()["spec"]["unschedulable"] is True
    site.uncordon()
    assert not site.node()["spec"].get("unschedulable")


def test_the_last_of_two_drains_opens_the_node(site: Site) -> None:
    site.cordon("node")
    first, site.kept = site.kept, []
    site.cordon("node")
    second = site.ours
    site.scheduler.uncordon(first[-1], DEADLINE)
    assert site.node()["spec"] == {"unschedulable": True}
    site.scheduler.uncordon(second, DEADLINE)
    assert site.node()["spec"] == {}


def test_undoing_on_a_node_that_is_gone_or_came_anew_is_done(site: Site) -> None:
    site.cordon("node")
    site.cluster.drop("nodes", "n1")
    site.uncordon()
    site.cluster.node(spec={"unschedulable": True})
    site.uncordon()
    assert site.node()["spec"] == {"unschedulable": True}
    site.scheduler.uncordon({}, DEADLINE)


# Eviction.


def evictions(site: Site) -> int:
    return len([one for one in site.cluster.writes() if one.endswith("/eviction")])


def mine(name: str = "mine") -> Work:
    return Work(f"default/{name}", None, None, "Running", "")


def test_one_pod_is_evicted_and_no_other(site: Site) -> None:
    site.cluster.pod("mine")
    site.cluster.pod("other")
    assert site.scheduler.stop(mine(), 5) is None
    assert [pod["metadata"]["name"] for pod in site.cluster.all("pods")] == ["other"]
    assert site.scheduler.stop(mine(), 5) is None
    assert evictions(site) == 1


def test_a_budget_refuses_in_its_own_words_and_then_lets_go(site: Site) -> None:
    site.cluster.pod("mine", metadata={"labels": {"app": "a"}})
    budget = {"spec": {"selector": {"matchLabels": {"app": "a"}}}}
    site.cluster.put("poddisruptionbudgets", "b", "default", **budget, status={"disruptionsAllowed": 0})
    assert site.scheduler.stop(mine(), 5) == "Cannot evict pod as it would violate the pod's disruption budget."
    assert site.cluster.get("pods", "mine", "default") is not None
    site.cluster.put("poddisruptionbudgets", "b", "default", **budget, status={"disruptionsAllowed": 1})
    assert site.scheduler.stop(mine(), 5) is None
    assert site.cluster.all("pods") == []


def test_a_server_that_says_when_to_ask_again_does_not_hold_us(site: Site) -> None:
    site.cluster.pod("mine", metadata={"labels": {"app": "a"}})
    site.cluster.put("poddisruptionbudgets", "b", "default", spec={"selector": {"matchLabels": {}}},
                     status={"disruptionsAllowed": 0})
    site.cluster.behaviour.retry_after = 30
    began = time.monotonic()
    assert site.scheduler.stop(mine(), 5) is not None
    assert time.monotonic() - began < 8


def test_a_pod_that_is_being_stopped_is_work_until_it_is_gone(site: Site) -> None:
    site.cluster.behaviour.lingers = True
    pod = site.cluster.pod("mine", spec={"terminationGracePeriodSeconds": 60})
    site.plugin(kubelet.entry(pod["metadata"]["uid"], ASCEND, ["Ascend910-1"]))
    assert site.scheduler.stop(mine(), 5) is None
    [work] = site.placement("node").work  # type: ignore[misc]
    assert work.state == "Terminating"
    assert site.scheduler.stop(work, 5) is None
    assert evictions(site) == 1
    site.cluster.drop("pods", "mine", "default")
    assert ids(site.placement("node")) == []


def test_a_server_before_1_22_is_asked_in_its_own_version(site: Site) -> None:
    site.cluster.behaviour.evictions = ("policy/v1beta1",)
    site.cluster.pod("mine")
    assert site.scheduler.stop(mine(), 5) is None
    assert (site.cluster.all("pods"), evictions(site)) == ([], 2)


def test_a_pod_of_the_same_name_elsewhere_or_already_going_is_left_alone(site: Site) -> None:
    site.cluster.pod("mine", node="n2")
    assert site.scheduler.stop(mine(), 5) is None
    site.cluster.pod("mine", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"})
    assert site.scheduler.stop(mine(), 5) is None
    site.cluster.pod("mine", phase="Failed")
    assert site.scheduler.stop(mine(), 5) is None
    assert evictions(site) == 0


def test_a_successor_under_the_same_name_is_not_evicted(site: Site) -> None:
    site.cluster.pod("mine")

    def swap(method: str, path: str) -> None:
        if path.endswith("/eviction"):
            site.cluster.drop("pods", "mine", "default")
            site.cluster.pod("mine")

    site.cluster.before = swap
    assert site.scheduler.stop(mine(), 5) is None
    assert site.cluster.get("pods", "mine", "default") is not None


# What goes wrong.


def test_a_refused_permission_is_said_with_what_to_type(site: Site) -> None:
    site.dra()
    site.cluster.pod("mine")
    site.cluster.behaviour.forbid = ("PUT nodes", f"POST {RULES}", "POST pods/eviction")
    for refused in (lambda: site.cordon("node"), site.cordon, lambda: site.scheduler.stop(mine(), 5)):
        with pytest.raises(HotplugError, match="system:node:n1") as caught:
            refused()
        assert caught.value.exit is Exit.DENIED
        assert "KUBECONFIG=/etc/kubernetes/admin.conf" in caught.value.hint
    site.cluster.behaviour.forbid = (f"GET {RULES}",)
    placement = site.placement()
    assert isinstance(placement.closed, Unknown)
    assert placement.closed.kind is Kind.DENIED
    assert blocked(placement) == [("the rules of single devices may not be read", "--scope node")]
    site.cluster.behaviour.forbid = ("GET nodes",)
    assert blocked(site.placement()) == [("Kubernetes does not permit it", "--scheduler none")]


@pytest.mark.parametrize("wrong", ["hang", "trickle", "garbage", "dead", "no kubeconfig", "no kubectl"])
def test_a_cluster_that_does_not_answer_is_a_blocker_within_seconds(site: Site, wrong: str) -> None:
    if wrong == "dead":
        site.server.close()
    elif wrong == "no kubeconfig":
        site.api = dataclasses.replace(site.api, config=None, missing="no kubeconfig: x")
    elif wrong == "no kubectl":
        site.api = dataclasses.replace(site.api, kubectl="/nonexistent/kubectl")
    else:
        setattr(site.cluster.behaviour, wrong, True)
        site.api = dataclasses.replace(site.api, call_s=2.0)
    began = time.monotonic()
    placement = site.placement()
    assert time.monotonic() - began < 4
    assert isinstance(placement.closed, Unknown)
    assert isinstance(placement.work, Unknown)
    assert blocked(placement) == [("Kubernetes does not answer", "--scheduler none")]
    assert placement.blockers[0].why
    for verb in (lambda: site.cordon("node", 1.5), lambda: site.scheduler.uncordon(KEPT, 1.5)):
        began = time.monotonic()
        with pytest.raises(HotplugError) as caught:
            verb()
        assert caught.value.exit is Exit.FAILED
        assert time.monotonic() - began < 3


def test_a_server_that_dies_in_the_middle_leaves_what_was_seen(site: Site) -> None:
    site.plugin()

    def garbage(method: str, path: str) -> None:
        if path == "/api/v1/pods":
            site.cluster.behaviour.garbage = True

    site.cluster.before = garbage
    placement = site.placement()
    assert isinstance(placement.work, Unknown)
    assert ("Kubernetes does not answer", "--scheduler none") in blocked(placement)


def test_a_write_whose_answer_is_lost_is_found_done(site: Site) -> None:
    def lose(method: str, path: str) -> None:
        if method == "PUT":
            site.cluster.before = lambda method, path: None
            node = site.node()
            node["spec"]["unschedulable"] = True
            node["metadata"]["annotations"] = {f"hotplugctl/cordon-{site.ours['token']}": "was-open"}
            site.cluster.put("nodes", "n1", **node)
            raise ConnectionAbortedError

    site.cluster.before = lose
    site.cordon("node")
    site.uncordon()
    assert site.node()["spec"] == {}


# Whether this machine belongs to a cluster at all.


@pytest.mark.parametrize(("sign", "found"), [
    (None, False), ("/var/lib/kubelet/config.yaml", True), (CHECKPOINT, True)])
def test_only_a_node_has_the_scheduler(
    machine: MachineTree, monkeypatch: pytest.MonkeyPatch, sign: str | None, found: bool
) -> None:
    program = kubectl()
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(kubernetes, "PATH", str(Path(program).parent))
    if sign:
        machine.put(sign, "{}")
    assert (kubernetes.here(machine.host) is not None) is found  # type: ignore[arg-type]
    monkeypatch.setenv("KUBECONFIG", "/x")
    assert kubernetes.here(machine.host) is not None  # type: ignore[arg-type]
    monkeypatch.setattr(kubernetes, "PATH", "/nonexistent")
    assert kubernetes.here(machine.host) is not None, "without kubectl it still is a node"  # type: ignore[arg-type]


def test_the_operators_kubeconfig_comes_first_and_then_the_usual_ones(machine: MachineTree) -> None:
    assert "no kubeconfig" in Api.found(machine.host, "kubectl", "").missing
    assert Api.found(machine.host, "kubectl", "").config is None
    machine.put("/etc/rancher/k3s/k3s.yaml", "x")
    machine.put("/etc/kubernetes/kubelet.conf", "x")
    assert Api.found(machine.host, "kubectl", "").config == "/etc/kubernetes/kubelet.conf"
    assert Api.found(machine.host, "kubectl", "/a:/b").config is None
    machine.put("/b", "x")
    assert Api.found(machine.host, "kubectl", "/a:/b").config == "/a:/b"


# The kubelet's own answer.


def test_pod_resources_tell_where_the_checkpoint_does_not(site: Site, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    socket = str(tmp_path / "kubelet.sock")
    site.machine.put(socket, "")        # there, as far as the machine's folder shows
    site.dra()
    kept = site.cluster.pod("kept")
    for name in ("plugin", "claim", "other"):
        site.cluster.pod(name)
    site.plugin(kubelet.entry(kept["metadata"]["uid"], ASCEND, ["Ascend910-1"], kubelet.granted(["/dev/davinci0"])))
    answer = kubelet.pod_resources(
        {"default/kept": [(ASCEND, ["Ascend910-1"])], "default/plugin": [(ASCEND, ["Ascend910-1"])],
         "default/other": [(ASCEND, ["Ascend910-10"])], "default/gone": [(ASCEND, ["Ascend910-1"])]},
        {"default/claim": [(DRIVER, POOL, "npu-1")], "default/other": [(DRIVER, POOL, "npu-2")]})
    with kubelet.service(Path(socket), answer):
        placement = Kubernetes(site.host, site.api, socket).placement(CARD, "device", {})
    assert ids(placement) == ["default/claim", "default/plugin"]
    Path(socket).unlink(missing_ok=True)
    dead = Kubernetes(site.host, site.api, socket).placement(CARD, "device", {})
    assert (ids(dead), dead.warnings) == ([], (
        f"the kubelet's PodResources did not answer ({socket}: UNAVAILABLE): its checkpoint was read",))


def test_other_bytes_of_the_kubelet_are_unknown(machine: MachineTree, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    socket = str(tmp_path / "kubelet.sock")
    machine.put(socket, "")
    with kubelet.service(Path(socket), b"\xff\xff"):
        assert isinstance(podresources.ask(machine.host, 2, socket), Unknown)
    assert podresources.ask(machine.host, 2, "/nonexistent/kubelet.sock") is None
