"""The shipped vendor profiles: what they take, what they leave alone, and that they are well formed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hotplugctl
from hotplugctl.health import says_so
from hotplugctl.model import Profile
from hotplugctl.readers.pci import Function
from hotplugctl.rules.load import load_profiles

FILES = sorted((Path(hotplugctl.__file__).parent / "data" / "vendors").glob("*.yaml"))
PROFILES = load_profiles(FILES)
BY_ID = {profile.id: profile for profile in PROFILES}
each_profile = pytest.mark.parametrize("profile", PROFILES, ids=[profile.id for profile in PROFILES])


def profile_of(vendor: str, device: str, class_: str) -> str | None:
    """The profile a function gets; the one for any driver comes last."""
    ordered = sorted(PROFILES, key=lambda profile: profile.any_driver)
    return next((profile.id for profile in ordered if profile.match.covers(vendor, device, class_)), None)


@pytest.mark.parametrize(
    ("claim", "vendor", "device", "class_", "profile"),
    [
        ("an Ascend 910B is an Ascend", "19e5", "d802", "120000", "ascend"),
        ("a Huawei NIC of the same vendor is no accelerator", "19e5", "0222", "020000", None),
        ("a Huawei NVMe controller is no NPU though the driver lists it", "19e5", "a126", "010802", None),
        ("a new Huawei accelerator is at least an accelerator", "19e5", "d999", "120000", "generic"),
        ("an H100 is NVIDIA's", "10de", "2330", "030200", "nvidia"),
        ("a GeForce is NVIDIA's", "10de", "2684", "030000", "nvidia"),
        ("a GPU that no table knows is NVIDIA's", "10de", "ffff", "030200", "nvidia"),
        ("a GPU's audio function is no accelerator", "10de", "22ba", "040300", None),
        ("a GPU's USB function is no accelerator", "10de", "1ad8", "0c0330", None),
        ("an NVSwitch is no accelerator", "10de", "22a3", "068000", None),
        ("an MI300X is AMD's", "1002", "74a1", "120000", "amd"),
        ("an MI250X is AMD's", "1002", "7408", "038000", "amd"),
        ("the graphics of an AMD processor are no accelerator", "1002", "164e", "030000", None),
        ("an AMD GPU's audio function is no accelerator", "1002", "ab38", "040300", None),
        ("a Gaudi 2 is Gaudi", "1da3", "1020", "120000", "gaudi"),
        ("an Intel NPU is one", "8086", "7d1d", "120000", "intel_npu"),
        ("an Intel NIC is no accelerator", "8086", "1572", "020000", None),
        ("a Cloud AI 100 is Qualcomm's", "17cb", "a100", "120000", "qualcomm"),
        ("a Qualcomm modem is no accelerator", "17cb", "0306", "ff0000", None),
        ("a Hailo-8 is Hailo's", "1e60", "2864", "0b4000", "hailo"),
        ("a Coral TPU is one, whatever its class reads", "1ac1", "089a", "0000ff", "coral"),
        ("a Blackhole is Tenstorrent's", "1e52", "b140", "120000", "tenstorrent"),
        ("a Ryzen NPU is XDNA", "1022", "17f0", "118000", "xdna"),
        ("an AMD bridge is no NPU", "1022", "14ee", "060400", None),
        ("an unknown card of class 12 is taken by the generic profile", "1d22", "3684", "120000", "generic"),
        ("an NVMe drive is no accelerator", "144d", "a80a", "010802", None),
        ("a bridge is no accelerator", "8086", "352a", "060400", None),
    ],
)
def test_a_function_gets_its_profile(claim, vendor, device, class_, profile):
    assert profile_of(vendor, device, class_) == profile, claim


def test_probe_chooses_the_same_way():
    probe = pytest.importorskip("hotplugctl.probe")
    function = Function("0000:17:00.0", "/sys/devices/pci0000:16/0000:17:00.0", "8086", "7d1d", "120000")
    assert probe.profile_for(PROFILES, function).id == "intel_npu"


@each_profile
def test_every_model_id_is_hex_and_belongs_to_its_own_profile(profile):
    for device in profile.models:
        assert re.fullmatch("[0-9a-f]{4}", device)
        vendors = profile.match.vendor
        classes = profile.match.class_ or ("120000",)
        assert any(profile.match.covers(vendors[0], device, class_.ljust(6, "0")) for class_ in classes)
    assert set(profile.match.device) <= set(profile.models)


@each_profile
def test_every_id_is_hex_and_every_file_is_named_after_its_profile(profile):
    assert profile.id in {path.stem for path in FILES}
    for id in (*profile.match.vendor, *profile.match.device):
        assert re.fullmatch("[0-9a-f]{4}", id)
    for class_ in profile.match.class_:
        assert re.fullmatch("[0-9a-f]{2,6}", class_)


@each_profile
def test_no_two_profiles_take_the_same_card(profile):
    others = [other for other in PROFILES if other is not profile and not other.any_driver]
    for device in () if profile.any_driver else profile.models:
        for class_ in ("120000", "038000", "030200"):
            if profile.match.covers(profile.match.vendor[0], device, class_):
                assert not [o.id for o in others if o.match.covers(profile.match.vendor[0], device, class_)]


@each_profile
def test_a_profile_without_drivers_takes_any(profile):
    assert bool(profile.drivers) is not profile.any_driver
    assert not set(profile.drivers) & set(profile.passthrough)


@each_profile
def test_a_handshake_asks_about_one_card_and_fits_into_its_time(profile):
    shake = profile.handshake
    if shake is None:
        return
    assert shake.expect is not None
    assert any("{index}" in word or "{address}" in word for word in (*shake.argv, shake.expect))
    assert 0 < shake.timeout <= 30
    assert shake.passes >= 1


# As `npu-smi info` prints it: two lines a chip, the second with the bus id.
NPU_SMI = """
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | {first:<13} | 91.4        41                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3374 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | {second:<13} | 90.2        40                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3374 / 65536         |
+===========================+===============+====================================================+
"""


@pytest.mark.parametrize(
    ("profile", "text", "passes"),
    [
        (BY_ID["ascend"], NPU_SMI.format(first="OK", second="Alarm"), True),
        (BY_ID["ascend"], NPU_SMI.format(first="Alarm", second="OK"), False),
        (BY_ID["ascend"], NPU_SMI.format(first="UNKNOWN", second="OK"), False),
        (BY_ID["ascend"], NPU_SMI.format(first="OK", second="OK").replace("C1:00.0", "C2:00.0"), False),
        (BY_ID["ascend"], "dcmi model initialized failed, because the device is used. ret is -8020\n", False),
        (BY_ID["nvidia"], "GPU-5c1d2e3f-0a1b-2c3d-4e5f-60718293a4b5\n", True),
        (BY_ID["nvidia"], "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.\n", False),
        (BY_ID["nvidia"], "[Unknown Error]\n", False),
        (BY_ID["nvidia"], "No devices were found\n", False),
    ],
    ids=lambda value: value.id if isinstance(value, Profile) else None,
)
def test_a_handshake_passes_only_on_a_healthy_answer(profile, text, passes):
    assert says_so(profile.handshake, text, index="0", address="0000:c1:00.0") is passes


@each_profile
def test_shared_nodes_are_not_a_cards_nodes(profile):
    """An open shared node says nothing about which card is used: it would block every drain."""
    assert all("{index}" in pattern for pattern in profile.nodes)
