"""Which station of the walk each root cause speaks of. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# Which station a root cause speaks of; what is not here is told by the facts of a station, or is of none.
STATION_OF: Mapping[str, str] = {
    "presence_flapping": "presence", "slot_empty": "presence", "surprise_removal": "presence", "latch_open": "latch",
    "slot_power_fault": "power", "slot_powered_off": "power", "link_training_failed": "link", "link_lost": "link",
    "link_downtrained": "link", "dpc_containment": "link", "bus_numbers_exhausted": "enumeration",
    "device_inaccessible": "enumeration", "ghost_device": "enumeration", "hotplug_request_ignored": "enumeration",
    "hotplug_thread_dead": "enumeration", "bar_space_exhausted": "bars", "bar_claimed_by_other": "bars",
    "rebar_failed": "bars", "driver_not_loaded": "driver", "module_signature_rejected": "driver",
    "module_abi_mismatch": "driver", "wrong_driver_bound": "driver", "driver_init_failed": "driver",
    "irq_vectors_unavailable": "driver", "iommu_disabled": "driver", "vfio_group_not_viable": "driver",
    "firmware_missing": "firmware", "firmware_incompatible": "firmware", "device_boot_timeout": "firmware",
    "dev_node_missing": "nodes", "dev_node_permission": "permissions", "container_cgroup_lost": "permissions",
    "container_device_not_visible": "permissions", "resource_limit": "permissions",
    "driver_lib_version_mismatch": "runtime", "runtime_package_mismatch": "runtime", "runtime_too_old": "runtime",
    "runtime_stale_after_hotplug": "runtime", "health_check_failed": "runtime", "device_heartbeat_lost": "runtime",
    "fabric_not_ready": "runtime", "listener_no_events": "listener", "event_callback_exception": "listener",
    "callback_blocks_loop": "listener", "uevent_overflow": "listener", "stale_device_handle": "listener",
}
