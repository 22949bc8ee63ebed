"""`rowtide merge`: devices that synchronise over HTTP."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import HubDb, SomePublication
from rowtide.cli.output.rows import notes
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.merge.articles import Partition
from rowtide.merge.devices.registered import CODE_HOURS

app = CommandTable()

DeviceName = Annotated[str, Argument(metavar="NAME", help="the device's name, as `devices` lists it")]
CodeHours = Annotated[float, Option("--code-hours", metavar="HOURS", help="How long the code can be used.")]


@app.command(
    epilog="Example: rowtide merge add-device tablet-7 --publication shop --host-name north"
    " --db postgresql://localhost/shop"
)
def add_device(
    db: HubDb,
    name: Annotated[str, Argument(metavar="NAME", help="how the device is called in listings")],
    publication: Annotated[str, Option("--publication", metavar="NAME", help="What it synchronises.")],
    partition: Partition,
    *,
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
