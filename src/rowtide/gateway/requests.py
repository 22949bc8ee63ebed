"""Messages of the wire protocol that are no part of a synchronisation. Pure."""

from __future__ import annotations

from rowtide.core.values import frozen
from rowtide.merge.session.messages import DeviceState

KEY_HEADER = "idempotency-key"
CLAIMS_HEADER = "rowtide-claims"
PROTOCOL_HEADER = "rowtide-protocol"
CLIENT_HEADER = "rowtide-client"
LONGEST_WAIT_S = 60.0
"""The limit of one long poll."""


@frozen
class DeviceRegistration:
    """A device exchanges its registration code for its token; without a code, by the JSON Web Token of its user."""

    code: str = ""


@frozen
class RegisteredDevice:
    """The token of a device, and what it is for."""

    token: str
    device: str
    publication: str


@frozen
class Done:
    """A request was done that has no other answer."""


@frozen
class Wait:
    """A long poll: it is answered once the hub has changes above a generation, or after a timeout."""

    generation: int
    wait_s: float = 0.0


@frozen
class Waited:
    """Whether the hub may have changes for a device above the generation that it has."""

    has_changes: bool


@frozen
class DeviceConflict:
    """A conflict of a device's change, as the hub keeps it; rows are JSON of columns and texts, null for a delete.

    `winning_row` is null, too, where the device does not have the row.
    """

    conflict_id: str
    article: str
    rowguid: str
    conflict_type: int
    reason_code: str
    reason_text: str
    losing_row: str | None
    winning_row: str | None
    is_resolved: bool


@frozen
class DeviceConflicts:
    """The conflicts of a device's changes."""

    conflicts: tuple[DeviceConflict, ...]


@frozen
class MoreRequest:
    """A device asks for the batches of a download from one on."""

    session: int
    generation: int
    first: int


@frozen
class More:
    """Batches of a download follow."""


@frozen
class FileRequest:
    """A device that has no file asks for one; `replaces`: also if it had one, whose changes are then lost.

    `state` is that of a device whose file has other publications too, and whose node keeps its number for them.
    """

    replaces: bool = False
    state: DeviceState | None = None


@frozen
class DeviceFile:
    """A compressed file that a device is to fetch: its name, and what it has to be before it is unpacked."""

    name: str
    size: int
    sha256: str
