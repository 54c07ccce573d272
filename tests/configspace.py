"""Config spaces built by hand: `Config(...).standard(...).extended(...).data`."""

from __future__ import annotations

from itertools import pairwise


class Config:
    """A function's config space. Capabilities are placed one after the other and chained in the order of the calls."""

    def __init__(
        self, vendor: int = 0x10DE, device: int = 0x2330, class_: int = 0x030200, *, size: int = 4096, header: int = 0,
        buses: tuple[int, int, int] = (0, 0, 0), bars: tuple[int, ...] = (),
    ) -> None:
        self.space = bytearray(size)
        self.put(0x00, vendor, 2).put(0x02, device, 2).put(0x09, class_, 3).put(0x0E, header, 1)
        for at, bus in enumerate(buses, start=0x18):
            self.put(at, bus, 1)
        for at, bar in zip(range(0x10, 0x28, 4), bars, strict=False):
            self.put(at, bar, 4)
        self.lists: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        self.free = {False: 0x40, True: 0x100}

    def put(self, at: int, value: int, size: int) -> Config:
        """Write a little-endian number."""
        self.space[at:at + size] = value.to_bytes(size, "little")
        return self

    def standard(self, id: int, *registers: tuple[int, int, int], length: int = 0x40) -> Config:
        """A standard capability with (offset, value, size) registers."""
        return self._add(False, id, registers, length)

    def extended(self, id: int, *registers: tuple[int, int, int], length: int = 0x50) -> Config:
        """An extended capability with (offset, value, size) registers."""
        return self._add(True, id, registers, length)

    def express(
        self, type: int = 0, *, speed: int = 5, width: int = 16, max_speed: int = 5, max_width: int = 16,
        version: int = 2, slot: tuple[int, int, int] | None = None, capable: int = 0, status: int = 0, control: int = 0,
    ) -> Config:
        """A PCI Express capability; `slot` = Slot Capabilities, Control, Status."""
        registers = [
            (0x02, version | type << 4 | (slot is not None) << 8, 2), (0x0C, max_speed | max_width << 4 | capable, 4),
            (0x10, control, 2), (0x12, speed | width << 4 | status, 2),
        ]
        if slot is not None:
            registers += [(0x14, slot[0], 4), (0x18, slot[1], 2), (0x1A, slot[2], 2)]
        if version >= 2:
            registers += [(0x2C, ((1 << max_speed) - 1) << 1, 4), (0x30, max_speed, 2)]
        return self.standard(0x10, *registers)

    def serial(self, number: int) -> Config:
        """A Device Serial Number capability."""
        return self.extended(0x03, (0x04, number & 0xFFFFFFFF, 4), (0x08, number >> 32, 4), length=0x10)

    def _add(self, extended: bool, id: int, registers: tuple[tuple[int, int, int], ...], length: int) -> Config:
        at = self.free[extended]
        self.free[extended] = at + length
        self.lists[extended].append((at, id))
        for offset, value, size in registers:
            self.put(at + offset, value, size)
        return self

    @property
    def data(self) -> bytes:
        """The bytes, with both lists chained."""
        ends = {False: (0x00, 0), True: (0x000, 0)}
        for extended, chain in self.lists.items():
            for (at, id), (after, _) in pairwise([*chain, ends[extended]]):
                if extended:
                    self.put(at, id | 1 << 16 | after << 20, 4)
                else:
                    self.put(at, id, 1).put(at + 1, after, 1)
        if self.lists[False]:
            self.space[0x06] |= 0x10
            self.space[0x34] = self.lists[False][0][0]
        return bytes(self.space)
