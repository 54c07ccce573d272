"""PCI configuration registers as tables: where each field stands, and what its bits mean.

Section numbers are those of the PCI Express Base Specification 5.0 unless another document is named. A field is bits
`high`:`low`, counted little-endian from byte `at` of its capability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Field(NamedTuple):
    """One field of a register; `meaning` turns the bits into the value people read."""

    name: str
    at: int
    high: int
    low: int
    meaning: Callable[[int], Any] = int

    @property
    def end(self) -> int:
        """The first byte after the field."""
        return self.at + self.high // 8 + 1


def flag(name: str, at: int, bit: int) -> Field:
    """A field of one bit."""
    return Field(name, at, bit, bit, bool)


def one_of(words: Mapping[int, Any]) -> Callable[[int], Any]:
    """A meaning out of a table; a code that the table lacks stays a number in words."""
    return lambda code: words.get(code, f"reserved ({code})")


def doubled(least: int) -> Callable[[int], int]:
    """`least` doubled n times: how sizes and vector counts are written."""
    return lambda n: least << n


def bytes_of(count: int) -> Callable[[int], str]:
    """`count` bytes as hex digits."""
    return lambda value: f"{value:0{2 * count}x}"


def bit_names(names: Mapping[int, str]) -> Callable[[int], tuple[str, ...]]:
    """The names of the bits that are set; `bit N` where the table has none."""
    return lambda value: tuple(names.get(bit, f"bit {bit}") for bit in range(32) if value >> bit & 1)


SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}   # GT/s; 7.5.3.6 names the bits of LnkCap2's vector


def speeds(vector: int) -> tuple[float, ...]:
    """The speeds of a Supported Link Speeds Vector, slowest first."""
    return tuple(gts for code, gts in SPEEDS.items() if vector >> code - 1 & 1)


def watts(bits: int) -> float | None:
    """Slot Power Limit Value and Scale; None = no limit was set. From f0 up, scale 0 counts in steps of 25 W."""
    value, scale = bits & 0xFF, bits >> 8
    if value >= 0xF0 and scale == 0:
        return None if value == 0xFF else 250.0 + 25 * (value - 0xF0)
    return value / 10**scale if value else None


DPC_REASONS = {0: "unmasked uncorrectable error", 1: "ERR_NONFATAL received", 2: "ERR_FATAL received"}   # 7.9.15
DPC_MORE_REASONS = {0: "RP PIO error", 1: "software trigger"}   # where the reason is 3


def containment_reason(bits: int) -> str:
    """DPC Trigger Reason, and its extension where the reason says so."""
    reason, more = bits & 3, bits >> 4 & 3
    return DPC_REASONS[reason] if reason in DPC_REASONS else DPC_MORE_REASONS.get(more, f"reserved ({more})")


PORT_TYPES = {   # 7.5.3.2, bits 7:4
    0x0: "endpoint", 0x1: "legacy endpoint", 0x4: "root port", 0x5: "upstream port", 0x6: "downstream port",
    0x7: "PCIe to PCI bridge", 0x8: "PCI to PCIe bridge", 0x9: "integrated endpoint", 0xA: "event collector",
}
# Parts of the root complex: they do not implement the link registers (7.5.3).
LINKLESS = frozenset({PORT_TYPES[0x9], PORT_TYPES[0xA]})

STANDARD_NAMES = {   # PCI Code and ID Assignment Specification, section 2
    0x01: "Power Management", 0x02: "AGP", 0x03: "Vital Product Data", 0x04: "Slot Identification", 0x05: "MSI",
    0x06: "CompactPCI Hot Swap", 0x07: "PCI-X", 0x08: "HyperTransport", 0x09: "Vendor Specific", 0x0A: "Debug Port",
    0x0B: "CompactPCI Resource Control", 0x0C: "Standard Hot-Plug Controller", 0x0D: "Subsystem ID",
    0x0E: "AGP 8x", 0x0F: "Secure Device", 0x10: "PCI Express", 0x11: "MSI-X", 0x12: "SATA",
    0x13: "Advanced Features", 0x14: "Enhanced Allocation", 0x15: "Flattening Portal Bridge",
}

EXTENDED_NAMES = {   # PCI Code and ID Assignment Specification, section 3
    0x01: "Advanced Error Reporting", 0x02: "Virtual Channel", 0x03: "Device Serial Number", 0x04: "Power Budgeting",
    0x05: "Root Complex Link Declaration", 0x06: "Root Complex Internal Link Control",
    0x07: "Root Complex Event Collector", 0x08: "Multi-Function Virtual Channel", 0x09: "Virtual Channel (MFVC)",
    0x0A: "Root Complex Register Block", 0x0B: "Vendor Specific", 0x0C: "Configuration Access Correlation",
    0x0D: "Access Control Services", 0x0E: "Alternative Routing-ID", 0x0F: "Address Translation Services",
    0x10: "SR-IOV", 0x11: "MR-IOV", 0x12: "Multicast", 0x13: "Page Request Interface", 0x15: "Resizable BAR",
    0x16: "Dynamic Power Allocation", 0x17: "TPH Requester", 0x18: "Latency Tolerance Reporting",
    0x19: "Secondary PCI Express", 0x1A: "Protocol Multiplexing", 0x1B: "Process Address Space ID",
    0x1C: "LN Requester", 0x1D: "Downstream Port Containment", 0x1E: "L1 PM Substates",
    0x1F: "Precision Time Measurement", 0x20: "PCI Express over M-PHY", 0x21: "FRS Queueing",
    0x22: "Readiness Time Reporting", 0x23: "Designated Vendor Specific", 0x24: "VF Resizable BAR",
    0x25: "Data Link Feature", 0x26: "Physical Layer 16 GT/s", 0x27: "Lane Margining", 0x28: "Hierarchy ID",
    0x29: "Native PCIe Enclosure Management", 0x2A: "Physical Layer 32 GT/s", 0x2B: "Alternate Protocol",
    0x2C: "System Firmware Intermediary", 0x2D: "Shadow Functions", 0x2E: "Data Object Exchange", 0x2F: "Device 3",
    0x30: "Integrity and Data Encryption", 0x31: "Physical Layer 64 GT/s", 0x32: "Flit Logging",
    0x33: "Flit Performance", 0x34: "Flit Error Injection",
}

EXPRESS = (   # 7.5.3: what every PCI Express function has
    Field("version", 0x02, 3, 0), Field("type", 0x02, 7, 4, one_of(PORT_TYPES)), flag("slot_implemented", 0x02, 8),
    Field("max_payload_supported", 0x04, 2, 0, doubled(128)), flag("function_level_reset", 0x04, 28),
    flag("report_correctable", 0x08, 0), flag("report_nonfatal", 0x08, 1), flag("report_fatal", 0x08, 2),
    Field("max_payload", 0x08, 7, 5, doubled(128)), Field("max_read_request", 0x08, 14, 12, doubled(128)),
    flag("correctable_detected", 0x0A, 0), flag("nonfatal_detected", 0x0A, 1), flag("fatal_detected", 0x0A, 2),
    flag("unsupported_request_detected", 0x0A, 3), flag("transactions_pending", 0x0A, 5),
)
EXPRESS_LINK = (   # 7.5.3.6 to 7.5.3.8
    Field("max_speed_gts", 0x0C, 3, 0, one_of(SPEEDS)), Field("max_width", 0x0C, 9, 4),
    Field("aspm_supported", 0x0C, 11, 10, one_of({0: "none", 1: "L0s", 2: "L1", 3: "L0s L1"})),
    flag("reports_surprise_down", 0x0C, 19), flag("reports_active", 0x0C, 20), Field("port_number", 0x0C, 31, 24),
    Field("aspm", 0x10, 1, 0, one_of({0: "off", 1: "L0s", 2: "L1", 3: "L0s L1"})), flag("link_disabled", 0x10, 4),
    Field("speed_gts", 0x12, 3, 0, one_of(SPEEDS)), Field("width", 0x12, 9, 4),
    flag("link_training", 0x12, 11), flag("link_active", 0x12, 13),
)
EXPRESS_SLOT = (   # 7.5.3.9 to 7.5.3.11
    flag("attention_button", 0x14, 0), flag("power_controller", 0x14, 1), flag("latch_sensor", 0x14, 2),
    flag("attention_indicator", 0x14, 3), flag("power_indicator", 0x14, 4), flag("surprise", 0x14, 5),
    flag("hotplug_capable", 0x14, 6), Field("power_limit_w", 0x14, 16, 7, watts), flag("interlock", 0x14, 17),
    Field("slot_number", 0x14, 31, 19),
    Field("attention_led", 0x18, 7, 6, one_of({1: "on", 2: "blink", 3: "off"})),
    Field("power_led", 0x18, 9, 8, one_of({1: "on", 2: "blink", 3: "off"})), flag("power_off", 0x18, 10),
    flag("button_pressed", 0x1A, 0), flag("power_fault", 0x1A, 1), flag("latch_changed", 0x1A, 2),
    flag("presence_changed", 0x1A, 3), flag("latch_open", 0x1A, 5), flag("presence", 0x1A, 6),
    flag("link_changed", 0x1A, 8),
)
EXPRESS_2 = (   # 7.5.3.15 to 7.5.3.20, version 2 and later; the second set of registers
    flag("ari_forwarding", 0x24, 5), Field("supported_speeds", 0x2C, 7, 1, speeds),
    Field("target_speed_gts", 0x30, 3, 0, one_of({0: None, **SPEEDS})),
)

STANDARD_FIELDS: Mapping[int, tuple[Field, ...]] = {
    0x01: (   # 7.5.2
        Field("version", 0x02, 2, 0), Field("state", 0x04, 1, 0, one_of({0: "D0", 1: "D1", 2: "D2", 3: "D3hot"})),
        flag("no_soft_reset", 0x04, 3), flag("pme_enabled", 0x04, 8),
    ),
    0x05: (   # 7.7.1
        flag("enabled", 0x02, 0), Field("vectors", 0x02, 3, 1, doubled(1)),
        Field("vectors_enabled", 0x02, 6, 4, doubled(1)), flag("address_64bit", 0x02, 7),
    ),
    0x09: (Field("length", 0x02, 7, 0),),
    0x0D: (Field("vendor_id", 0x04, 15, 0, bytes_of(2)), Field("device_id", 0x06, 15, 0, bytes_of(2))),
    0x11: (   # 7.7.2
        Field("vectors", 0x02, 10, 0, lambda n: n + 1), flag("masked", 0x02, 14), flag("enabled", 0x02, 15),
        Field("table_bar", 0x04, 2, 0), Field("table_offset", 0x04, 31, 3, lambda n: n << 3),
    ),
}

AER_UNCORRECTABLE = {   # bit -> the kernel's short name (drivers/pci/pcie/aer.c, Linux 6.12); 7.8.4.2
    0: "Undefined", 4: "DLP", 5: "SDES", 12: "TLP", 13: "FCP", 14: "CmpltTO", 15: "CmpltAbrt", 16: "UnxCmplt",
    17: "RxOF", 18: "MalfTLP", 19: "ECRC", 20: "UnsupReq", 21: "ACSViol", 22: "UncorrIntErr", 23: "BlockedTLP",
    24: "AtomicOpBlocked", 25: "TLPBlockedErr", 26: "PoisonTLPBlocked",
}
AER_CORRECTABLE = {   # 7.8.4.5
    0: "RxErr", 6: "BadTLP", 7: "BadDLLP", 8: "Rollover", 12: "Timeout", 13: "NonFatalErr", 14: "CorrIntErr",
    15: "HeaderOF",
}


EXTENDED_FIELDS: Mapping[int, tuple[Field, ...]] = {
    0x01: (   # 7.8.4
        Field("uncorrectable", 0x04, 31, 0, bit_names(AER_UNCORRECTABLE)),
        Field("uncorrectable_masked", 0x08, 31, 0, bit_names(AER_UNCORRECTABLE)),
        Field("fatal_if_seen", 0x0C, 31, 0, bit_names(AER_UNCORRECTABLE)),
        Field("correctable", 0x10, 31, 0, bit_names(AER_CORRECTABLE)),
        Field("correctable_masked", 0x14, 31, 0, bit_names(AER_CORRECTABLE)), Field("first_error", 0x18, 4, 0),
    ),
    0x03: (Field("low", 0x04, 31, 0, bytes_of(4)), Field("high", 0x08, 31, 0, bytes_of(4))),   # 7.9.3
    0x0B: (Field("vsec_id", 0x04, 15, 0, bytes_of(2)), Field("length", 0x04, 31, 20)),
    0x0D: (   # 7.7.8
        flag("source_validation", 0x06, 0), flag("request_redirect", 0x06, 2), flag("completion_redirect", 0x06, 3),
        flag("upstream_forwarding", 0x06, 4),
    ),
    0x0E: (Field("next_function", 0x04, 15, 8),),
    0x0F: (flag("enabled", 0x06, 15),),   # 10.5.1.3; enabled makes invalidations time out when the card is pulled
    0x10: (   # 9.3.3
        flag("enabled", 0x08, 0), Field("initial", 0x0C, 15, 0), Field("total", 0x0E, 15, 0),
        Field("number", 0x10, 15, 0), Field("offset", 0x14, 15, 0), Field("stride", 0x16, 15, 0),
        Field("vf_device_id", 0x1A, 15, 0, bytes_of(2)),
    ),
    0x13: (flag("enabled", 0x04, 0),),
    0x15: (Field("bars", 0x08, 7, 5),),   # 7.8.6
    0x1B: (flag("enabled", 0x06, 0), Field("width", 0x04, 12, 8)),
    0x1D: (   # 7.9.15; 7.9.14 in 6.0
        flag("software_trigger_supported", 0x04, 7), flag("active_reporting", 0x04, 12),
        Field("enabled_for", 0x06, 1, 0, one_of({0: "off", 1: "fatal", 2: "fatal and non-fatal"})),
        flag("triggered", 0x08, 0), Field("reason", 0x08, 6, 1, containment_reason),
        flag("root_port_busy", 0x08, 4), Field("source_id", 0x0A, 15, 0, bytes_of(2)),
    ),
    0x1E: (Field("supported", 0x04, 4, 0), Field("enabled", 0x08, 3, 0)),   # 7.8.3
    0x23: (   # 7.9.6; vendor 1e98 is the CXL consortium
        Field("vendor_id", 0x04, 15, 0, bytes_of(2)), Field("length", 0x04, 31, 20),
        Field("dvsec_id", 0x08, 15, 0, bytes_of(2)),
    ),
    0x25: (flag("exchange_enabled", 0x04, 31),),
}

REBAR_PAIR = (   # 7.8.6.2 and 7.8.6.3; sizes start at 1 MiB, those from 256 TiB stand in the upper half of the control
    Field("sizes", 0x04, 31, 4, lambda bits: tuple(1 << 20 + n for n in range(28) if bits >> n & 1)),
    Field("index", 0x08, 2, 0), Field("size", 0x08, 13, 8, doubled(1 << 20)),
)
