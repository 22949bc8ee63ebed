"""Addresses of networks and of devices. Pure."""

from __future__ import annotations

from rowtide.databases.types.value_type import DeviceColumn, ValueType

_DEVICE_MAC = DeviceColumn("macaddr, macaddr8", "text", "TEXT, `08:00:2b:01:02:03`")

TYPES = (
    # A cast to text adds the network's length.
    ValueType(name="inet", oid=869, casts_otherwise=True),
    ValueType(name="cidr", oid=650),
    ValueType(name="macaddr", oid=829, device=_DEVICE_MAC),
    ValueType(name="macaddr8", device=_DEVICE_MAC),
)
