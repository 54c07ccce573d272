"""Which card is meant: what kubelets, device plugins and drivers write, and names that only look alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotplugctl.model import Accelerator, Trit, Unknown
from hotplugctl.plugs.kubernetes import kubelet, recognise, wire
from hotplugctl.plugs.kubernetes.devices import named
from hotplugctl.plugs.kubernetes.kubelet import Allotment, Given

from .kubelet import checkpoint, entry, granted, pod_resources

NPU = Accelerator("0000:c1:00.0", ("/dev/davinci1",), ("1",), serial="033EKX10P6", profile="ascend")
GPU = Accelerator("0000:01:00.0", ("/dev/nvidia1",), ("1",), uuid="GPU-3c1c5e2a-0b1d-4f6e-9a52-7d5f0c2b1a99",
                  profile="nvidia")
INTEL = Accelerator("0000:03:00.0", ("/dev/dri/card1", "/dev/dri/renderD129"))
LAB = Accelerator("0000:05:00.0", ("/dev/accel/accel0",), ("0",), profile="lab")
OTHER_GPU = "GPU-aaaaaaaa-0b1d-4f6e-9a52-7d5f0c2b1a99"
ASCEND, NVIDIA = "huawei.com/Ascend910", "nvidia.com/gpu"
YES, NO, UNKNOWN = Trit.YES, Trit.NO, Trit.UNKNOWN


def shown(resource: str, value: str, *ids: str) -> Allotment:
    return Allotment("p", resource, ids, words=(value,), visible=(value,))


@pytest.mark.parametrize(("card", "allotment", "answer"), [
    # nodes
    (NPU, Allotment("p", ASCEND, ("x",), nodes=("/dev/davinci1", "/dev/davinci_manager")), YES),
    (NPU, Allotment("p", ASCEND, ("x",), nodes=("/dev/davinci10", "/dev/davinci_manager")), NO),
    (NPU, Allotment("p", ASCEND, ("Ascend910-1",), nodes=("/dev/davinci0",)), NO),      # Volcano chose another
    (NPU, Allotment("p", ASCEND, ("Ascend910-0",), nodes=("/dev/davinci1",)), YES),
    (NPU, Allotment("p", ASCEND, ("Ascend910-2c-100-1",), nodes=("/dev/vdavinci100",)), YES),
    (INTEL, Allotment("p", "gpu.intel.com/i915", ("card1-0",), nodes=("/dev/dri/card1", "/dev/dri/renderD129")), YES),
    (INTEL, Allotment("p", "gpu.intel.com/i915", ("card10-1",), nodes=("/dev/dri/card10",)), NO),
    (LAB, Allotment("p", "example.com/edu", ("a1b2",), nodes=("/dev/accel/accel0",)), YES),
    (LAB, Allotment("p", "example.com/edu", ("a1b2",), nodes=("/dev/accel/accel01",)), NO),
    # what the runtime is told to show
    (NPU, shown(ASCEND, "0,1", "Ascend910-7"), YES),
    (NPU, shown(ASCEND, "0-3", "Ascend910-7"), YES),
    (NPU, shown(ASCEND, "2-3", "Ascend910-1"), NO),
    (NPU, shown(ASCEND, "10,11", "Ascend910-1"), NO),
    (NPU, shown(ASCEND, "Ascend910-1", "Ascend910-9"), YES),
    (GPU, shown(NVIDIA, GPU.uuid or "", OTHER_GPU), YES),
    (GPU, shown(NVIDIA, OTHER_GPU, GPU.uuid or ""), NO),
    (GPU, shown(NVIDIA, "void", GPU.uuid or ""), YES),
    (GPU, Allotment("p", NVIDIA, ("x",), words=("nvidia.com/gpu=1",)), YES),
    (GPU, Allotment("p", NVIDIA, ("x",), words=("nvidia.com/gpu=11",)), NO),
    (GPU, Allotment("p", NVIDIA, ("x",), words=("nvidia.com/gpu=all",)), YES),
    (GPU, Allotment("p", NVIDIA, ("x",), words=("huawei.com/npu=1",)), UNKNOWN),
    # ids
    (NPU, Allotment("p", ASCEND, ("Ascend910-1",)), YES),
    (NPU, Allotment("p", ASCEND, ("Ascend910-10", "Ascend910-11")), NO),
    (NPU, Allotment("p", ASCEND, ("Ascend910-2c-1-7",)), NO),       # virtual 1 on chip 7
    (NPU, Allotment("p", ASCEND, ("Ascend910-2c-10-1",)), YES),     # no address d910-2c-10-1
    (NPU, Allotment("p", ASCEND, ("Ascend310P-4c.3cpu.ndvpp-100-1_50",)), YES),
    (NPU, Allotment("p", ASCEND, ("npu-033EKX10P6",)), YES),
    (NPU, Allotment("p", ASCEND, ("npu-033EKX10P61",)), UNKNOWN),
    (GPU, Allotment("p", NVIDIA, (f"{GPU.uuid}::3",)), YES),        # time slices
    (GPU, Allotment("p", NVIDIA, (f"MIG-{GPU.uuid}/1/0",)), YES),
    (GPU, Allotment("p", "nvidia.com/mig-1g.10gb", ("MIG-4c1c5e2a-0b1d-4f6e-9a52-7d5f0c2b1a99",)), UNKNOWN),
    (GPU, Allotment("p", NVIDIA, (OTHER_GPU,)), NO),
    (GPU, Allotment("p", "volcano.sh/vgpu-number", (f"{GPU.uuid}-0",)), YES),
    # addresses
    (LAB, Allotment("p", "example.com/edu", ("0000:05:00.0",)), YES),
    (LAB, Allotment("p", "example.com/edu", ("00000000:05:00.0",)), YES),
    (LAB, Allotment("p", "example.com/edu", ("05:00.0",)), YES),
    (LAB, Allotment("p", "example.com/edu", ("0000-05-00-0",)), YES),
    (LAB, Allotment("p", "example.com/edu", ("10000:05:00.0",)), NO),      # a domain behind VMD
    (LAB, Allotment("p", "example.com/edu", ("0001:05:00.0",)), NO),
    (LAB, Allotment("p", "example.com/edu", ("0000:05:00.01",)), NO),
    (LAB, Allotment("p", "example.com/edu", ("0000:15:05:00.0",)), NO),
    (LAB, Allotment("p", "example.com/edu", ("x",), words=("0000:06:00.0,0000:05:00.0",)), YES),
    # numbers of other things
    (NPU, Allotment("p", "rdma/hca_shared", ("1",)), NO),
    (NPU, shown("rdma/hca_shared", "1", "1"), NO),
    (LAB, Allotment("p", "rdma/hca_shared", ("1",)), NO),
    (LAB, Allotment("p", "example.com/edu", ("0",)), UNKNOWN),
    (LAB, Allotment("p", "example.com/edu", ("accel0",)), YES),
    (LAB, Allotment("p", "example.com/edu", ("accel0x", "accel01")), NO),
    (Accelerator("0000:05:00.0", serial="0"), Allotment("p", "x/y", ("0",)), NO),
    (Accelerator("0000:05:00.0", serial="00000000"), Allotment("p", "x/y", ("00000000",)), NO),
    (Accelerator("0000:05:00.0", ("/dev/vfio/42", "/dev/vfio/vfio")), Allotment("p", "x/y", nodes=("/dev/vfio/vfio",)),
     NO),
    (Accelerator("0000:05:00.0", ("/dev/vfio/42", "/dev/vfio/vfio")), Allotment("p", "x/y", ("42",)), NO),
])
def test_a_card_is_told_from_what_only_looks_like_it(card: Accelerator, allotment: Allotment, answer: Trit) -> None:
    assert recognise.has(card, allotment) is answer


def test_both_forms_of_a_checkpoint_are_read_with_what_the_plugin_answered() -> None:
    response = granted(["/dev/davinci1", "/dev/davinci_manager"], {"ASCEND_VISIBLE_DEVICES": "1", "A": "b"},
                       {"x": "note"}, ["huawei.com/npu=1"])
    text = checkpoint(entry("u1", ASCEND, ["Ascend910-1", "Ascend910-2"], response),
                      entry("u2", ASCEND, ["Ascend910-3"], numa=False), offered={ASCEND: ["Ascend910-0"]})
    given = kubelet.checkpoint(text.encode())
    assert isinstance(given, Given)
    first, second = given.allotments
    assert first == Allotment(
        "u1", ASCEND, ("Ascend910-1", "Ascend910-2"), ("/dev/davinci1", "/dev/davinci_manager"),
        ("1", "b", "note", "huawei.com/npu=1"), ("1",),
    )
    assert (second.pod, second.ids, second.nodes) == ("u2", ("Ascend910-3",), ())
    assert given.offered == {ASCEND: ("Ascend910-0",)}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Data": 1}', '{"Data": {"PodDeviceEntries": [7]}}', "[" * 99_999],
                         ids=range(6))
def test_a_checkpoint_of_another_form_is_unknown_not_empty(text: str) -> None:
    assert isinstance(kubelet.checkpoint(text.encode()), Unknown)


def test_an_empty_checkpoint_has_nothing() -> None:
    assert kubelet.checkpoint(json.dumps({"Data": {"PodDeviceEntries": None}}).encode()) == Given(offered={})


def test_a_damaged_answer_of_a_plugin_leaves_the_ids() -> None:
    damaged = entry("u1", ASCEND, ["Ascend910-1"]) | {"AllocResp": "GgUK"}
    given = kubelet.checkpoint(checkpoint(damaged).encode())
    assert isinstance(given, Given)
    assert given.allotments == (Allotment("u1", ASCEND, ("Ascend910-1",)),)


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x05ab", b"\xff" * 12, b"\x0d\x01", b"\x0b"])
def test_other_bytes_are_no_message(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        list(wire.fields(raw))


def test_the_kubelets_answer_names_devices_and_claims() -> None:
    answer = pod_resources({"ns/a": [(ASCEND, ["Ascend910-1"])]}, {"ns/b": [("d", "p", "npu-1")]})
    given = kubelet.pod_resources(answer)
    assert given.allotments == (Allotment("ns/a", ASCEND, ("Ascend910-1",)),)
    assert given.claimed == (kubelet.Claimed("ns/b", "d", "p", "npu-1"),)


def slice_of(*devices: dict[str, Any], driver: str = "npu.huawei.com", generation: int = 1) -> dict[str, Any]:
    return {"spec": {"driver": driver, "pool": {"name": "n1", "generation": generation}, "devices": list(devices)}}


def device(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}


BUS = "resource.kubernetes.io/pciBusID"


def test_the_card_is_found_in_a_slice_by_its_address_and_not_by_its_root() -> None:
    root = {"name": "npu-9", "attributes": {"resource.kubernetes.io/pcieRoot": {"string": "pci0000:c0"}}}
    ours = {"name": "npu-7", "attributes": {BUS: {"string": "0000:c1:00.0"}}}
    other = {"name": "npu-1", "attributes": {BUS: {"string": "0000:c2:00.0"}}}     # the address decides, not the 1
    assert [one.device for one in named(NPU, [slice_of(root, ours, other)])] == ["npu-7"]


@pytest.mark.parametrize(("card", "one", "found"), [
    (GPU, device("gpu-4", uuid=GPU.uuid), True),
    (GPU, device("gpu-1", uuid=OTHER_GPU), False),
    (GPU, device("gpu-0-mig-1", parentUUID=GPU.uuid, uuid="MIG-4c1c5e2a-0b1d-4f6e-9a52-7d5f0c2b1a99"), True),
    (NPU, device("npu-1"), True),
    (NPU, device("npu-10"), False),
    (NPU, device("davinci1"), True),
    (NPU, device("x", serial="033EKX10P6"), True),
    (NPU, device("npu-1", serial="033EKX10P7"), False),
    (NPU, device("x", serial="1", uniqueID="1"), False),
    (INTEL, device("0000-03-00-0-0x56a0"), True),
    (INTEL, device("0000-13-00-0-0x56a0"), False),
    (LAB, device("edu-0"), False),
])
def test_a_device_of_a_slice_is_the_card_or_it_is_not(card: Accelerator, one: dict[str, Any], found: bool) -> None:
    driver = "gpu.nvidia.com" if card is GPU else "npu.huawei.com"
    assert bool(named(card, [slice_of(one, driver=driver)])) is found


def test_an_older_generation_of_a_pool_does_not_count_and_the_older_form_does() -> None:
    old = {"name": "npu-7", "basic": {"attributes": {BUS: {"string": "0000:c1:00.0"}}}}
    new = {"name": "npu-8", "basic": {"attributes": {BUS: {"string": "0000:c1:00.0"}},
                                      "taints": [{"key": "sick", "effect": "NoSchedule"}]}}
    found = named(NPU, [slice_of(old), slice_of(new, generation=2)])
    assert [(one.device, one.tainted) for one in found] == [("npu-8", True)]
