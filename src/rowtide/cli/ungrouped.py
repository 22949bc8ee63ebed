"""Commands without a group: shell completion, the demo, the monitor in a terminal, and unit files for systemd."""

from __future__ import annotations

import os
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import click
from click.shell_completion import get_completion_class

from rowtide.cli.active_configuration import configuration, database_url
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import MonitoredDb
from rowtide.cli.output.rows import notes
from rowtide.core.exports import naming_extras
from rowtide.core.options import Argument, Option

app = CommandTable()
VARIABLE = "_ROWTIDE_COMPLETE"
"""Set in calls of a completion script, to the shell and the request: `bash_complete`."""


class Shell(StrEnum):
    """Shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SETUP = {
    Shell.BASH: 'eval "$(rowtide completion bash)" in ~/.bashrc (bash 4.4 or newer)',
    Shell.ZSH: 'eval "$(rowtide completion zsh)" in ~/.zshrc, after compinit',
    Shell.FISH: "rowtide completion fish > ~/.config/fish/completions/rowtide.fish",
}


@app.command(epilog='Example: eval "$(rowtide completion bash)"')
def completion(shell: Annotated[Shell, Argument(metavar="bash|zsh|fish", help="The shell.")]) -> None:
    """Print the script by which a shell completes commands, options and names.

    Names of instances, publications and subscribers are those of the last listing, `cdc instances` say, of the database
    that the command line or ROWTIDE_DB names: nothing is connected to.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(click.get_current_context().find_root().command, {}, "rowtide", VARIABLE)
    print(made.source_template % made.source_vars())
    if notes.is_terminal:
        notes.print(f"To use it: {_SETUP[shell]}")


def complete(tree: click.Group, instruction: str) -> int:
    """Answer a completion script; return the exit code."""
    shell, _, what = instruction.partition("_")
    kind = get_completion_class(shell)
    if kind is None or what != "complete":
        return 1
    print(kind(tree, {}, "rowtide", VARIABLE).complete())
    return 0


@app.command(epilog="Example: rowtide demo --keep /tmp/rowtide-demo")
def demo(
    *,
    seconds: Annotated[int, Option(min=1, help="How long pgbench runs, at least.")] = 20,
    keep: Annotated[
        Path | None, Option(help="An empty folder, in which everything is kept: lake, log store, PostgreSQL's data.")
    ] = None,
) -> None:
    """Run capture on an embedded PostgreSQL with a real workload, and prove that nothing is lost.

    Starts PostgreSQL and pgbench, captures their changes while they run, reads them consistently from a second process,
    and compares the result with the source, row by row.
    """
    from rich.console import Console

    from rowtide.demo.report import write_report
    from rowtide.demo.story import run_demo

    outcome = run_demo(seconds=seconds, keep=keep, console=Console(stderr=True, highlight=False))
    print(write_report(outcome))


@app.command(epilog="Example: rowtide top --db postgresql://rowtide_monitor@db1/shop")
def top(db: MonitoredDb) -> None:
    """Show databases in this terminal, the worst first, polled every 15 seconds, until q is pressed.

    It polls by itself, beside a monitor that runs, needs no Spark, contacts no subscriber and changes nothing. The
    arrow keys choose a database, whose subjects are shown below.
    """
    with naming_extras():
        from rowtide.monitor.terminal import Top
    from pathlib import Path

    from rowtide.monitor.databases import name_databases
    from rowtide.monitor.errors import NoDatabaseGiven, TerminalMissing
    from rowtide.monitor.polling import Polling
    from rowtide.monitor.ring import Ring

    given = db or [url for url in (os.environ.get("ROWTIDE_DB", ""),) if url] or [*configuration().databases]
    databases = name_databases(given, database_url)
    if not databases:
        raise NoDatabaseGiven
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TerminalMissing
    # The monitor's file can be opened by one process at a time, and this view needs no history.
    with (
        TemporaryDirectory(prefix="rowtide-top-") as folder,
        Ring.open(Path(folder)) as ring,
        Polling(databases, ring) as polling,
    ):
        Top(polling).run()


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
    from rowtide.systemd import UnitSettings, default_folder, describe_units, write_units

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
