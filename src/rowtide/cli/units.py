"""`rowtide install-units`: unit files for systemd."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.output.rows import notes
from rowtide.core.options import Option

app = CommandTable()


@app.command(epilog="Example: rowtide install-units --run-as rowtide --writable /data/lake")
def install_units(
    *,
    for_user: Annotated[bool, Option("--user", help="For your own user manager, in place of the system's.")] = False,
    run_as: Annotated[str, Option("--run-as", metavar="NAME", help="The user that the services run as.")] = "rowtide",
    config: Annotated[
        Path | None,
        Option(
            "--config-file",
            metavar="FILE",
            help="The configuration file of the services.",
            show_default="/etc/rowtide/rowtide.toml, with --user rowtide/rowtide.toml in your configuration folder",
        ),
    ] = None,
    writable: Annotated[
        list[str],
        Option("--writable", metavar="FOLDER", help="A lake or log store on this machine; may be repeated."),
    ],
    folder: Annotated[
        Path | None,
        Option("--folder", metavar="FOLDER", help="Where the files are written.", show_default="systemd's own"),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the files, and write none.")] = False,
) -> None:
    """Write rowtide-agent@.service and rowtide-monitor.service for systemd.

    The agent of a database of the configuration file is then `systemctl enable --now rowtide-agent@NAME`. Files that
    this command has written before are replaced; settings of your own belong in a drop-in (`systemctl edit`).
    """
    from rowtide.systemd.units import UnitSettings, default_folder, describe_units, write_units

    settings = UnitSettings(
        _find_program(),
        (config or _default_config(for_user=for_user)).absolute(),
        None if for_user else run_as,
        writable=tuple(Path(one).absolute() for one in writable),
    )
    units = describe_units(settings)
    if dry_run:
        for name, text in units.items():
            print(f"# {name}\n{text}")
        return
    for path, state in write_units(units, folder or default_folder(os.environ, for_user=for_user)).items():
        print(f"{path}: {state}")
    manager = "systemctl --user" if for_user else "systemctl"
    notes.print(f"Next: {manager} daemon-reload && {manager} enable --now rowtide-agent@NAME", soft_wrap=True)


def _find_program() -> Path:
    """Return the command that was called, which is that of its environment."""
    beside = Path(sys.executable).with_name("rowtide")
    found = shutil.which("rowtide")
    return beside if beside.exists() or found is None else Path(found)


def _default_config(*, for_user: bool) -> Path:
    if not for_user:
        return Path("/etc/rowtide/rowtide.toml")
    given = os.environ.get("XDG_CONFIG_HOME")
    return (Path(given) if given else Path.home() / ".config") / "rowtide" / "rowtide.toml"
