# SPDX-License-Identifier: Apache-2.0
"""A real kernel with real PCIe hot-plug, in QEMU: the guest that tests and people plug cards into."""
