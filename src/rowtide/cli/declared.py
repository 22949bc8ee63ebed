"""`rowtide export` and `rowtide apply`: what rowtide does in a database, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, ListingFormat, Yes, confirm_loss
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument, Option

if TYPE_CHECKING:
    from rowtide.declared.state import DeclaredObject, State

app = CommandTable()


@app.command(epilog="Example: rowtide export --db postgresql://localhost/shop > shop.toml")
def export(db: AnyDb) -> None:
    """Print what rowtide does in a database as a file that `rowtide apply` takes.

    The file has definitions: no rows, no positions of readers, and no passwords. Options with their defaults are left
    out.
    """
    from rowtide.declared.applying import read_state
    from rowtide.declared.file import write_file

    print(write_file(read_state(db)), end="")


@app.command(epilog="Example: rowtide apply shop.toml --dry-run --db postgresql://localhost/shop")
def apply(
    db: AnyDb,
    file: Annotated[Path, Argument(metavar="FILE", help="a file as `rowtide export` prints it; -: standard input")],
    form: ListingFormat = OutputFormat.TABLE,
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan, and change nothing.")] = False,
    prune: Annotated[bool, Option("--prune", help="Drop what the file does not declare.")] = False,
    yes: Yes = False,
) -> None:
    """Make a database what a file declares: print the plan, then carry it out.

    Objects are added, changed, made again where an option cannot be changed, or left. What making them again loses is
    said first, and asked for. What the file does not declare is dropped only with --prune. A command that was
    interrupted is repeated.
    """
    from rowtide.declared import applying
    from rowtide.declared.planning import Action, PlannedStep

    planned = applying.plan(db, _read(file), prunes=prune)
    print_listed(PlannedStep, planned.steps, form)
    if dry_run or planned.is_empty:
        notes.print("There is nothing to do." if planned.is_empty else "Nothing was changed.")
        return
    if planned.lost:
        confirm_loss("; ".join(planned.lost), yes=yes)
    applying.apply(db, planned, _report)
    done = sum(step.action is not Action.LEAVE for step in planned.steps)
    notes.print(f"Done: the database is what {file} declares; {done} objects differed.")


def _read(file: Path) -> State:
    import sys

    from rowtide.declared.errors import DeclarationUnreadable
    from rowtide.declared.file import parse_file

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationUnreadable(str(file), getattr(error, "strerror", None) or "it is not UTF-8") from error
    return parse_file(text, str(file))


def _report(done: str, one: DeclaredObject) -> None:
    notes.print(f"{done.capitalize()}: {one.label}.", soft_wrap=True)
