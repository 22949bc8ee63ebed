"""Devices of a hub: added, registered by a code, known by a token, revoked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from rowtide.core.names import require_name
from rowtide.core.values import frozen
from rowtide.merge.articles import Partition
from rowtide.merge.catalogue import get_publication, has_devices, list_articles, list_publications
from rowtide.merge.definitions import device_metadata, devices, publications
from rowtide.merge.devices.credentials import (
    CODE_HOURS,
    Credential,
    device_id_of,
    is_of,
    new_code,
    new_device_id,
    token_for,
)
from rowtide.merge.errors.devices import (
    CodeRefused,
    DeviceExists,
    DeviceFileDiffers,
    DeviceRevoked,
    DeviceUnknown,
    HoursRefused,
    TokenOfAnother,
    TokenRefused,
)
from rowtide.merge.exchange_state import as_utc
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.filters import require_values

OVERLAP_HOURS = 24.0
"""How long the former token is valid after a new one was used."""
_MOST_HOURS = 8760.0
_CONTACT_S = 60.0
"""How often the last contact is written at most: each time costs a transaction."""
_LONGEST_VERSION = 64


@frozen
class MergeDevice:
    """A device that synchronises over HTTP."""

    name: str
    publication: str
    state: str
    """added, registered, or revoked."""
    host_name: str | None
    suser_name: str | None
    created_at: datetime
    registered_at: datetime | None
    last_contact: datetime | None
    client_version: str | None
    revoked_at: datetime | None
    code_expires: datetime | None
    refused: int


@frozen
class NamedDevice:
    """A device whose user's issuer vouches for it: its name, what identifies it, and what it may synchronise."""

    name: str
    identity: str
    publication: str


@frozen
class KnownDevice:
    """A device whose token is in force, with its partition."""

    device_id: str
    name: str
    publication: str
    partition: Partition
    subid: str | None
    claims_issued: datetime | None


def add_device(
    hub: Node,
    name: str,
    publication_name: str,
    partition: Partition,
    code_hours: float = CODE_HOURS,
    *,
    from_claims: bool = False,
) -> str:
    """Add a device, and return its registration code, which is stored nowhere.

    With `from_claims`, its partition is that of its users' JSON Web Tokens.

    Raises `NameUnfit`, `HoursRefused`, `MergePublicationUnknown`, `PartitionValueMissing`, `PartitionValueUnfit`,
    `DeviceExists`.
    """
    require_name("device", name)
    expires = _after(code_hours)
    publication = get_publication(hub.connection, publication_name)
    if not from_claims:
        partition = require_values(publication, list_articles(hub.connection, publication.pubid), partition)
    device_id = new_device_id()
    code = new_code(device_id)
    with hub.transaction():
        hub.tables.add(device_metadata)
        if hub.connection.execute(select(devices.c.name).where(devices.c.name == name)).first() is not None:
            raise DeviceExists(name)
        hub.connection.execute(
            insert(devices).values(
                device_id=device_id,
                name=name,
                pubid=publication.pubid,
                host_name=partition.host_name,
                suser_name=partition.suser_name,
                code_digest=code.digest,
                code_expires=expires,
            )
        )
    return code.as_code


def list_devices(hub: Node, publication_name: str | None) -> Sequence[MergeDevice]:
    """Return the devices of a publication, or of all. Raises `MergePublicationUnknown`."""
    if publication_name is not None:
        get_publication(hub.connection, publication_name)
    if not has_devices(hub.connection):
        return ()
    names = {one.pubid: one.name for one in list_publications(hub.connection)}
    rows = hub.connection.execute(select(devices).order_by(devices.c.name)).mappings()
    found = [_device_of(row, names.get(row["pubid"], "")) for row in rows]
    return [one for one in found if publication_name in (None, one.publication)]


def revoke_device(hub: Node, name: str) -> None:
    """Refuse a device from now on, also within a synchronisation. Idempotent. Raises `DeviceUnknown`."""
    with hub.transaction():
        row = _find(hub.connection, name)
        if row["revoked_at"] is None:
            _set(hub.connection, row["device_id"], revoked_at=datetime.now(UTC), code_digest=None, code_expires=None)


def rotate_token(hub: Node, name: str, code_hours: float = CODE_HOURS) -> str:
    """Return a new registration code of a device; its token stays in force until some hours after the next was used.

    A revoked device may register again. Raises `DeviceUnknown`, `HoursRefused`.
    """
    expires = _after(code_hours)
    with hub.transaction():
        row = _find(hub.connection, name)
        code = new_code(row["device_id"])
        tokens = {} if row["revoked_at"] is None else {"token_digest": None, "former_digest": None, "revoked_at": None}
        values = {"code_digest": code.digest, "code_expires": expires, "next_digest": None, **tokens}
        _set(hub.connection, row["device_id"], **values)
    return code.as_code


def register(hub: Node, code: Credential, key: str, client_version: str) -> tuple[str, KnownDevice]:
    """Exchange a code for a token; the same code with the same key gets the same one until that is used.

    Raises `CodeRefused`.
    """
    token = token_for(code, key)
    with hub.transaction():
        row = _by_id(hub.connection, code.device_id)
        if row is None or not is_of(code, row["code_digest"]):
            raise CodeRefused("it is unknown, or was used")
        expires = as_utc(row["code_expires"])
        if expires < datetime.now(UTC):
            raise CodeRefused(f"it expired at {expires:%Y-%m-%d %H:%M} UTC")
        if row["next_digest"] is None:
            version = client_version[:_LONGEST_VERSION]
            _set(hub.connection, code.device_id, next_digest=token.digest, client_version=version)
        elif not is_of(token, row["next_digest"]):
            raise CodeRefused("another request has used it")
        return token.as_token, _known(row)


def register_named(
    hub: Node, device: NamedDevice, issued: datetime, key: str, client_version: str
) -> tuple[str, KnownDevice]:
    """Register a device without a code, or again; the same key gets the same token until that is used.

    Its ID is made of what identifies it: one that an operator has added has another ID, and is not taken over. Its
    partition is that of its users' JSON Web Tokens.

    Raises `NameUnfit`, `MergePublicationUnknown`, `DeviceExists`, `DeviceRevoked`, `TokenOfAnother`.
    """
    require_name("device", device.name)
    pubid = get_publication(hub.connection, device.publication).pubid
    device_id = device_id_of(device.identity)
    token = token_for(Credential(device_id, device_id), key)
    with hub.transaction():
        hub.tables.add(device_metadata)
        row = _by_id(hub.connection, device_id)
        if row is None:
            if hub.connection.execute(select(devices.c.name).where(devices.c.name == device.name)).first() is not None:
                raise DeviceExists(device.name)
            values = {"device_id": device_id, "name": device.name, "pubid": pubid, "claims_issued": issued}
            hub.connection.execute(insert(devices).values(values))
        elif row["revoked_at"] is not None:
            raise DeviceRevoked(row["name"], f"{as_utc(row['revoked_at']):%Y-%m-%d %H:%M} UTC")
        elif row["pubid"] != pubid:
            raise TokenOfAnother(row["name"], device.publication)
        _set(hub.connection, device_id, next_digest=token.digest, client_version=client_version[:_LONGEST_VERSION])
        row = _by_id(hub.connection, device_id)
        assert row is not None
        return token.as_token, _known(row)


def know_device(hub: Node, token: Credential | None, client_version: str = "") -> KnownDevice:
    """Return the device that a token is of, and note its contact. Raises `TokenRefused`, `DeviceRevoked`."""
    row = None if token is None else _by_id(hub.connection, token.device_id)
    if token is None or row is None:
        raise TokenRefused("it is unknown")
    now = datetime.now(UTC)
    values: dict[str, object] = {}
    is_former = is_of(token, row["former_digest"]) and as_utc(row["former_expires"]) > now
    if is_of(token, row["next_digest"]):
        # The code is used up now that the device has the token.
        values = {
            "former_digest": row["token_digest"],
            "former_expires": now + timedelta(hours=OVERLAP_HOURS),
            "token_digest": row["next_digest"],
            "next_digest": None,
            "code_digest": None,
            "code_expires": None,
            "registered_at": now,
        }
    elif not is_of(token, row["token_digest"]) and not is_former:
        with hub.transaction():
            _set(hub.connection, token.device_id, refused=devices.c.refused + 1)
        raise TokenRefused("it is no longer in force")
    if row["revoked_at"] is not None:
        raise DeviceRevoked(row["name"], f"{as_utc(row['revoked_at']):%Y-%m-%d %H:%M} UTC")
    last = row["last_contact"]
    if values or row["refused"] or last is None or (now - as_utc(last)).total_seconds() > _CONTACT_S:
        version = client_version[:_LONGEST_VERSION] or row["client_version"]
        with hub.transaction():
            _set(hub.connection, token.device_id, last_contact=now, client_version=version, refused=0, **values)
    return _known(row)


def forget_token(hub: Node, device: KnownDevice) -> None:
    """Invalidate a device's tokens; a new code registers it again."""
    with hub.transaction():
        _set(hub.connection, device.device_id, token_digest=None, next_digest=None, former_digest=None)


def require_publication(device: KnownDevice, publication: str) -> None:
    """Raise `TokenOfAnother` unless a device's token is for a publication."""
    if device.publication != publication:
        raise TokenOfAnother(device.name, publication)


def bind_subscription(hub: Node, device: KnownDevice, subid: str) -> None:
    """Note the subscription of a device at its first synchronisation. Raises `DeviceFileDiffers`."""
    if device.subid == subid:
        return
    if device.subid is not None:
        raise DeviceFileDiffers(device.name)
    with hub.transaction():
        taken = select(devices.c.device_id).where(
            (devices.c.subid == subid) & (devices.c.device_id != device.device_id)
        )
        if hub.connection.execute(taken).first() is not None:
            raise DeviceFileDiffers(device.name)
        _set(hub.connection, device.device_id, subid=subid)


def replace_subscription(hub: Node, device: KnownDevice, subid: str) -> None:
    """Note a new subscription of a device, which gets a new file."""
    with hub.transaction():
        _set(hub.connection, device.device_id, subid=subid)


def note_claims(hub: Node, device: KnownDevice, issued: datetime) -> None:
    """Note when the user's token was issued whose claims say the device's partition."""
    with hub.transaction():
        _set(hub.connection, device.device_id, claims_issued=issued)


def _after(hours: float) -> datetime:
    if not 0 < hours <= _MOST_HOURS:
        raise HoursRefused(hours)
    return datetime.now(UTC) + timedelta(hours=hours)


def _find(connection: Connection, name: str) -> Mapping[str, Any]:
    found = select(devices).where(devices.c.name == name)
    row = connection.execute(found).mappings().first() if has_devices(connection) else None
    if row is None:
        raise DeviceUnknown(name)
    return _named(row)


def _by_id(connection: Connection, device_id: str) -> Mapping[str, Any] | None:
    """Return a device with its publication's name: a gateway asks this for each request, in one round trip."""
    row = connection.execute(_DEVICE, {"of_device": device_id}).mappings().first()
    return None if row is None else _named(row)


_DEVICE = (
    select(devices, publications.c.name.label("publication"))
    .outerjoin(publications, publications.c.pubid == devices.c.pubid)
    .where(devices.c.device_id == bindparam("of_device"))
)


def _named(row: Any) -> Mapping[str, Any]:
    return {str(name): value for name, value in row.items()}


def _set(connection: Connection, device_id: str, **values: object) -> None:
    connection.execute(update(devices).where(devices.c.device_id == device_id).values(**values))


def _known(row: Mapping[str, Any]) -> KnownDevice:
    issued = row["claims_issued"]
    return KnownDevice(
        device_id=row["device_id"],
        name=row["name"],
        publication=row["publication"] or "",
        partition=Partition(row["host_name"], row["suser_name"]),
        subid=row["subid"],
        claims_issued=None if issued is None else as_utc(issued),
    )


def _device_of(row: Any, publication: str) -> MergeDevice:
    named = _named(row)
    times = ("registered_at", "last_contact", "revoked_at", "code_expires")
    return MergeDevice(
        name=named["name"],
        publication=publication,
        state=_state_of(named),
        host_name=named["host_name"],
        suser_name=named["suser_name"],
        client_version=named["client_version"],
        refused=int(named["refused"]),
        created_at=as_utc(named["created_at"]),
        **{time: None if named[time] is None else as_utc(named[time]) for time in times},
    )


def _state_of(row: Mapping[str, Any]) -> str:
    if row["revoked_at"] is not None:
        return "revoked"
    return "added" if row["registered_at"] is None else "registered"
