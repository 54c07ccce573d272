"""Device nodes, chip numbers and versions, read from made-up trees."""

from __future__ import annotations

import json

import pytest

from hotplugctl.host.files import Memory
from hotplugctl.host.tree import Bundle, Tree
from hotplugctl.model import Kind, Match, Node, Profile
from hotplugctl.readers import runtime

HERE = "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0"
ACCEL = Profile(
    id="lab", name="Lab", match=Match(), drivers=("labaccel",), classes=("accel",), passthrough=("vfio-pci",)
)
ASCEND = Profile(
    id="ascend", name="Huawei Ascend", match=Match(), drivers=("devdrv_device_driver",), classes=("devdrv-class",),
    nodes=("/dev/davinci{index}",), index="dev_id",
)
NVIDIA = Profile(id="nvidia", name="NVIDIA", match=Match(), drivers=("nvidia",), nodes=("/dev/nvidia{index}",))
UUID = "GPU-11111111-2222-3333-4444-555555555555"
INFORMATION = "/proc/driver/nvidia/gpus/0000:17:00.0/information"


def tree(files: dict[str, str], links: dict[str, str] | None = None) -> Tree:
    """A machine with one function; names without a slash in front are its attributes."""
    made = {name if name.startswith("/") else f"{HERE}/{name}": text.encode() for name, text in files.items()}
    return Tree(Memory({f"{HERE}/vendor": b"0x1234\n", **made}, links or {}), "made-up")


def nodes(host: Tree, profile: Profile = ACCEL):
    index = runtime.index_of(host, HERE, profile)
    return runtime.nodes(host, HERE, profile, index if isinstance(index, tuple) else ())


def test_a_class_device_names_its_node():
    host = tree({
        "accel/accel0/dev": "261:0\n", "accel/accel0/uevent": "MAJOR=261\nMINOR=0\nDEVNAME=accel/accel0\n",
        "/dev/accel/accel0": "c 261 0 root render 0660",
    })
    assert nodes(host) == (Node("/dev/accel/accel0", 261, 0, "root", "render", "0660"),)


@pytest.mark.parametrize(
    ("class_", "child", "path"),
    [
        ("accel", "accel3", "/dev/accel/accel3"), ("drm", "renderD128", "/dev/dri/renderD128"),
        ("nvme", "nvme0", "/dev/nvme0"), ("tenstorrent", "tenstorrent!0", "/dev/tenstorrent/0"),
    ],
)
def test_without_a_name_the_custom_of_the_class_tells(class_, child, path):
    profile = Profile(id="lab", name="Lab", match=Match(), classes=(class_,))
    (node,) = nodes(tree({f"{class_}/{child}/dev": "200:7"}), profile)
    assert node == Node(path, 200, 7, None, None, None)


def test_a_class_device_below_a_child_device_is_found():
    (node,) = nodes(tree({"mhi0/accel/accel1/dev": "261:1", "resource0/accel/accel9/dev": "1:1"}))
    assert node.path == "/dev/accel/accel1"


def test_what_has_no_number_is_no_node():
    profile = Profile(id="lab", name="Lab", match=Match(), classes=("drm",))
    host = tree({"drm/card0/dev": "226:0", "drm/card0-DP-1/status": "connected", "drm/card0/card0-DP-1/status": "x"})
    assert [node.path for node in nodes(host, profile)] == ["/dev/dri/card0"]


def test_a_node_that_is_not_there_has_the_kernels_numbers_and_no_owner():
    assert nodes(tree({"accel/accel0/dev": "261:0"})) == (Node("/dev/accel/accel0", 261, 0, None, None, None),)


def test_a_node_left_over_from_another_device_counts_as_missing():
    host = tree({"accel/accel0/dev": "261:0", "/dev/accel/accel0": "c 99 4 root root 0666"})
    assert nodes(host) == (Node("/dev/accel/accel0", 261, 0, None, None, None),)


def test_a_name_cannot_lead_out_of_dev():
    host = tree({"accel/accel0/dev": "261:0", "accel/accel0/uevent": "DEVNAME=../etc/passwd"})
    assert [node.path for node in nodes(host)] == ["/dev/accel/accel0"]


def test_an_ascend_function_with_two_chips_has_two_nodes():
    host = tree({
        "dev_id": "2\n", "davinci_dev_num": "2\n", "davinci_dev_id": "0\n",
        "/dev/davinci2": "c 236 2 HwHiAiUser HwHiAiUser 0660",
    })
    assert runtime.index_of(host, HERE, ASCEND) == ("2", "3")
    assert [(node.path, node.owner) for node in nodes(host, ASCEND)] == [
        ("/dev/davinci2", "HwHiAiUser"), ("/dev/davinci3", None),
    ]


def test_the_chip_selector_is_never_taken_for_the_number():
    assert runtime.index_of(tree({"dev_id": "5", "davinci_dev_id": "0"}), HERE, ASCEND) == ("5",)


def test_a_count_that_makes_no_sense_is_one_chip():
    for count in ("-1", "", "many", "0", "99999999"):
        index = runtime.index_of(tree({"dev_id": "1", "davinci_dev_num": count}), HERE, ASCEND)
        assert index[0] == "1"
        assert len(index) <= 64


def test_an_nvidia_minor_comes_from_proc_and_is_not_the_order_on_the_bus():
    host = tree({
        INFORMATION: f"Model: \t\t NVIDIA H100\nGPU UUID: \t {UUID}\nDevice Minor: \t 3\n",
        "/dev/nvidia3": "c 195 3 root root 0666",
    })
    assert nodes(host, NVIDIA) == (Node("/dev/nvidia3", 195, 3, "root", "root", "0666"),)
    assert runtime.uuid(host, HERE, NVIDIA) == UUID


def test_a_uuid_of_question_marks_is_none_yet():
    early = tree({INFORMATION: "GPU UUID: \t GPU-????????-????-????-????-????????????\n"})
    assert runtime.uuid(early, HERE, NVIDIA) is None
    assert runtime.uuid(tree({}), HERE, ACCEL) is None


def test_a_driver_that_gave_no_number_leaves_no_node():
    assert nodes(tree({}), NVIDIA) == ()
    assert nodes(tree({}), ASCEND) == ()


def test_a_number_that_was_not_captured_leaves_the_nodes_unknown():
    manifest = {"schema": "hotplugctl.bundle/1", "host": "n", "redacted": False, "taken_at": 0, "answers": {}}
    host = Bundle(Memory({"/manifest.json": json.dumps(manifest).encode()}, {}), "made up")
    assert runtime.index_of(host, HERE, ASCEND).kind is Kind.NOT_CAPTURED
    assert runtime.nodes(host, HERE, ASCEND, ()).kind is Kind.NOT_CAPTURED


def test_a_function_handed_to_a_vm_shows_the_nodes_of_vfio():
    host = tree(
        {"vfio-dev/vfio0/dev": "511:0", "/dev/vfio/17": "c 238 0 root root 0600"},
        {
            f"{HERE}/driver": "../../../../bus/pci/drivers/vfio-pci",
            f"{HERE}/iommu_group": "../../../../kernel/iommu_groups/17",
        },
    )
    assert [(node.path, node.mode) for node in nodes(host)] == [
        ("/dev/vfio/17", "0600"), ("/dev/vfio/devices/vfio0", None),
    ]


def test_versions_of_modules_and_packages_are_told_as_far_as_they_are_installed():
    host = tree({
        "/sys/module/nvidia/version": "550.54.15\n",
        "/proc/driver/nvidia/version":
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs)\nGCC version: x",
        "/usr/local/Ascend/driver/version.info": "Version=25.0.rc1\nascendhal_version=7.35.23\n",
    })
    assert runtime.versions(host, NVIDIA) == {"modules": {"nvidia": "550.54.15"}, "driver": "550.54.15"}
    assert runtime.versions(host, ASCEND) == {"driver": "25.0.rc1"}
    assert runtime.versions(host, ACCEL) == {}


def test_the_old_form_of_nvidias_version_line_is_understood():
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01  Wed Oct 27 2021"
    host = tree({"/proc/driver/nvidia/version": line})
    assert runtime.versions(host, NVIDIA) == {"driver": "470.82.01"}
