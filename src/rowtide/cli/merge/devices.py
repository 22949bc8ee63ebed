"""`rowtide merge`: devices that synchronise over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import HubDb, Listed, SomePublication, listing
from rowtide.cli.output.rows import notes
from rowtide.core.options import Argument, Option
from rowtide.databases.urls import parse_url
from rowtide.handle import connect
from rowtide.merge.articles import Partition
from rowtide.merge.devices.credentials import CODE_HOURS

if TYPE_CHECKING:
    from rowtide.gateway.device import Device

app = CommandTable()

GatewayUrl = Annotated[
    str | None,
    Option("--url", metavar="URL", help="A gateway's address, https://HOST/HUB, in place of --db."),
]
DeviceCode = Annotated[
    str | None,
    Option(
        "--code",
        metavar="CODE",
        help="--url: the registration code, at the first time. The token is kept beside the file, in FILE.token.",
        from_file=False,
    ),
]
ReplacesFile = Annotated[
    bool, Option("--replace", help="--url: the device's file was lost with its changes: make a new one.")
]
DeviceName = Annotated[str, Argument(metavar="NAME", help="the device's name, as `devices` lists it")]
CodeHours = Annotated[float, Option("--code-hours", metavar="HOURS", help="How long the code can be used.")]


@app.command(
    epilog="Example: rowtide merge add-device tablet-7 --publication shop --host-name north"
    " --db postgresql://localhost/shop"
)
def add_device(
    db: HubDb,
    name: Annotated[str, Argument(metavar="NAME", help="the device's name in listings")],
    publication: Annotated[str, Option("--publication", metavar="NAME", help="The publication that it synchronises.")],
    partition: Partition,
    *,
    from_claims: Annotated[
        bool, Option("--from-claims", help="The partition is that of its users' JSON Web Tokens; see `gateway serve`.")
    ] = False,
    code_hours: CodeHours = CODE_HOURS,
) -> None:
    """Let a device synchronise over HTTP, and print its registration code on standard output, once.

    The device exchanges the code for its token by `rowtide merge sync --url … --code CODE`. No request can change the
    values of host_name() and suser_name().
    """
    code = connect(db).merge.add_device(
        name,
        publication=publication,
        host_name=partition.host_name,
        login=partition.suser_name,
        from_claims=from_claims,
        code_hours=code_hours,
    )
    notes.print(f"Added: device {name}. Its registration code, to be used once within {code_hours:g} hours:")
    print(code)


@listing(
    app,
    epilog="Example: rowtide merge devices shop --db postgresql://localhost/shop",
    columns="name, publication, state, host_name, last_contact, client_version as version, refused",
)
def devices(db: HubDb, publication: SomePublication = None) -> Listed:
    """List the devices that synchronise over HTTP, and when each was last there."""
    from rowtide.merge.devices.registered import MergeDevice

    return MergeDevice, connect(db).merge.list_devices(publication)


@app.command(epilog="Example: rowtide merge revoke-device tablet-7 --db postgresql://localhost/shop")
def revoke_device(db: HubDb, name: DeviceName) -> None:
    """Refuse a device from its next request on, also within a synchronisation.

    What it has changed stays on the device; `rotate-token` lets it register again, and upload that.
    """
    connect(db).merge.revoke_device(name)
    notes.print(f"Revoked: device {name}.")


@app.command(epilog="Example: rowtide merge rotate-token tablet-7 --db postgresql://localhost/shop")
def rotate_token(db: HubDb, name: DeviceName, *, code_hours: CodeHours = CODE_HOURS) -> None:
    """Print a new registration code of a device on standard output, also of one that was revoked.

    Its present token stays in force until 24 hours after it has used the next one.
    """
    code = connect(db).merge.rotate_token(name, code_hours=code_hours)
    notes.print(f"The registration code of device {name}, to be used once within {code_hours:g} hours:")
    print(code)


def require_db(db: str | None) -> str:
    """Return the publisher's database, which is given unless a gateway is."""
    if db is None:
        raise click.BadParameter("one of --db and --url is needed", param_hint="--db")
    return db


@contextmanager
def opening(url: str, subscriber: str, publication: str | None, code: str | None = None) -> Iterator[Device]:
    """Open a device's file that reaches its hub by a gateway, registered first where a code is given."""
    # The gateway answers with any error.
    import rowtide.errors  # noqa: F401
    from rowtide.handle import device

    parsed = parse_url(subscriber)
    if not parsed.kind.is_file or not parsed.database:
        raise click.BadParameter("by a gateway only a SQLite file is synchronised", param_hint="--subscriber")
    with device(parsed.database, url, publication=publication) as opened:
        if code is not None:
            opened.register(code)
        yield opened
