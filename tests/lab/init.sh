#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# First process of the guest: makes a writable copy of the host's file system to live in.
# /settings gives PYTHON, AGENT, PROJECT, PREFIX, MODULES, VENDORS and KEEP as shell variables.
bb=/bin/busybox
. /settings

$bb mkdir -p /proc /sys /dev /host /rw /new
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
for module in netfs 9pnet 9pnet_virtio 9p overlay; do $bb insmod /modules/$module.ko; done

$bb mount -t 9p -o "trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose" host /host
$bb mount -t tmpfs -o size=75% tmpfs /rw
$bb mkdir /rw/upper /rw/work
$bb mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /new
# The host's own run-time files would only mislead. What is needed from below there is put back.
$bb mount -t tmpfs -o mode=755 tmpfs /new/run
$bb mount -t tmpfs -o mode=1777 tmpfs /new/tmp
eval "set -- $KEEP"
for path; do
    $bb mkdir -p "/new$path" && $bb mount -o bind "/host$path" "/new$path"
done

# The checkout once more, not cached: what is edited on the host is seen here at once. Its virtual environment
# is left as it is, cached: Python starts faster from there.
$bb mkdir -p /checkout /venv /rw/checkout /rw/checkout-work
$bb mount -t 9p -o "trans=virtio,version=9p2000.L,ro,msize=512000,cache=none" checkout /checkout
$bb mount -o bind "/new$PREFIX" /venv
$bb mount -t overlay -o lowerdir=/checkout,upperdir=/rw/checkout,workdir=/rw/checkout-work overlay "/new$PROJECT"
$bb mount -o bind /venv "/new$PREFIX"

for mount in proc sys dev; do $bb mount -o move /$mount /new/$mount; done
$bb mkdir -p /new/run/lab /new/run/lock
$bb cp /settings /stage2.sh /new/run/lab
$bb ifconfig lo 127.0.0.1 up
$bb hostname lab
exec $bb switch_root /new /bin/sh /run/lab/stage2.sh
