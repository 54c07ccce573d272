#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Still the first process, now with the host's programs: starts udev and the agent.
. /run/lab/settings
export HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=000 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing

mkdir -p "/lib/modules/$(uname -r)" /lib/firmware/labaccel
mount -o bind "$MODULES" "/lib/modules/$(uname -r)"
printf 'labaccel firmware 1.0\n' > /lib/firmware/labaccel/fw.bin

rm -rf /etc/hotplugctl /var/lib/hotplugctl /root/.config/hotplugctl
mkdir -p /etc/hotplugctl/vendors.d
install -o root -g root -m 0644 "$VENDORS"/*.yaml /etc/hotplugctl/vendors.d/

/lib/systemd/systemd-udevd --daemon
# Only the cards that were there at power-on: all the rest is noise and seconds.
udevadm trigger --action=add /sys/devices/pci0000:00/0000:*/0000:* 2>/dev/null
# The first process never ends; dash also collects orphans while it waits.
while :; do "$PYTHON" -I -S "$AGENT"; sleep 1; done
