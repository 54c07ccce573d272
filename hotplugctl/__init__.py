"""hotplugctl: see, watch, drain and diagnose PCIe accelerators that come and go while the machine runs."""

__version__ = "0.1.0"
