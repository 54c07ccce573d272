# SPDX-License-Identifier: Apache-2.0
"""Run in the guest: unbind a card as a drain would, under its lock. Usage: hung_write.py ADDRESS DEADLINE"""

from __future__ import annotations

import sys

from hotplugctl import act, records
from hotplugctl.errors import HotplugError
from hotplugctl.host.live import Live

address, deadline = sys.argv[1], float(sys.argv[2])
live = Live()
driver = f"/sys/bus/pci/devices/{address}/driver"
try:
    with records.lock(address, "the lab's test"):
        act.write(live, address, f"{driver}/unbind", address, took=lambda: live.link(driver) is None, deadline=deadline)
    print("unbound")
except HotplugError as error:
    print(error)
    sys.exit(error.exit)
