"""Devices of a hub that synchronise over HTTP: a part of `rowtide.connect(url).merge`."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.merge.articles import Partition
from rowtide.merge.devices.credentials import CODE_HOURS
from rowtide.merge.devices.registered import (
    MergeDevice,
    add_device,
    list_devices,
    revoke_device,
    rotate_token,
)
from rowtide.merge.errors.devices import DeviceUnknown
from rowtide.merge.nodes.connecting import MergeHandle, knows, open_node


class MergeDevices(MergeHandle):
    """Devices of a hub that synchronise over HTTP."""

    def add_device(
        self,
        name: str,
        *,
        publication: str,
        host_name: str | None = None,
        login: str | None = None,
        from_claims: bool = False,
        code_hours: float = CODE_HOURS,
    ) -> str:
        """Add a device that synchronises over HTTP; return its registration code, which is stored nowhere.

        The code can be exchanged once for the device's token, within `code_hours`. `host_name` and `login` are the
        device's values of host_name() and suser_name(): no request can change them. With `from_claims` they are those
        of its users' JSON Web Tokens. Raises `NameUnfit`,
        `HoursRefused`, `MergePublicationUnknown`, `PartitionValueMissing`, `PartitionValueUnfit`, `DeviceExists`.
        """
        with self._open_hub(publication) as hub:
            return add_device(hub, name, publication, Partition(host_name, login), code_hours, from_claims=from_claims)

    def list_devices(self, publication: str | None = None) -> Sequence[MergeDevice]:
        """Return the devices of a publication, or of all. Raises `MergePublicationUnknown`."""
        with open_node(self.url) as hub:
            return list_devices(hub, publication) if knows(hub, publication) else ()

    def revoke_device(self, name: str) -> None:
        """Refuse a device from its next request on; what it has changed stays on it. Raises `DeviceUnknown`."""
        with open_node(self.url) as hub:
            if not knows(hub, None):
                raise DeviceUnknown(name)
            revoke_device(hub, name)

    def rotate_token(self, name: str, *, code_hours: float = CODE_HOURS) -> str:
        """Return a new registration code of a device, also of one that was revoked.

        The present token stays in force until 24 hours after the device has used the next one. Raises `DeviceUnknown`,
        `HoursRefused`.
        """
        with open_node(self.url) as hub:
            if not knows(hub, None):
                raise DeviceUnknown(name)
            return rotate_token(hub, name, code_hours)
