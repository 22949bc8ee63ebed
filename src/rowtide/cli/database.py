"""`rowtide adopt`, `upgrade`, `grant`, `export`, `apply` and `audit`: commands for a database as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, Db, DryRun, Listed, ListingFormat, Reason, Yes, confirm_loss, listing
from rowtide.cli.output.rows import OutputFormat, notes, print_listed, print_rows, print_wait, printed
from rowtide.core.options import MOST_ROWS, Argument, Option
from rowtide.handle import connect
from rowtide.rights.purpose import Purpose

if TYPE_CHECKING:
    from rowtide.core.formats import PresentStore
    from rowtide.declared.planning import DeclaredObject, State
    from rowtide.upgrading.upgrade import DatabaseUpgrade


app = CommandTable()


@app.command(epilog="Example: rowtide adopt --yes --db postgresql://localhost/shop")
def adopt(
    db: Db,
    *,
    abandon_original: Annotated[
        bool,
        Option(
            "--abandon-original",
            help="Take over log store and lake even if the original is still on this server: its capture stops.",
        ),
    ] = False,
    reason: Reason = "adopted",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Adopt a database that was moved permanently: restored in place, promoted, or upgraded by pg_upgrade.

    Reports what was found and what is lost, and asks. Publication and slot are created again, and the gap is recorded,
    as by reinitialize. A copy is refused while the original is on this server.
    """
    database = connect(db)
    found = database.find_adoption()
    for line in found.describe():
        notes.print(line, soft_wrap=True)
    if not found.is_needed:
        notes.print("This database was not moved: there is nothing to adopt, and nothing was changed.")
        return
    found.require_allowed(abandons_original=abandon_original)
    if dry_run:
        with printed(database.rehearsal()) as rehearsal:
            rehearsal.adopt(abandon_original=abandon_original)
        return
    confirm_loss(found.loss, yes=yes)
    database.adopt(reason, abandon_original=abandon_original, on_wait=print_wait)
    notes.print("Adopted. `rowtide cdc run` or `rowtide replication run` continues, in the next epoch.")
    if found.subscribers:
        notes.print("`rowtide replication reinitialize` copies the tables of subscriptions again.")


_COLUMNS = ["store", "place", "format", "upgraded_to", "least_reader", "least_writer", "refused"]


@app.command(epilog="Example: rowtide upgrade --dry-run --db postgresql://localhost/shop")
def upgrade(
    db: AnyDb,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    subscribers: Annotated[
        bool,
        Option(
            "--subscribers",
            help="Also what subscribers have of its publications, if they can be reached.",
            from_file=False,
        ),
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="List the stores, and migrate none.")] = False,
) -> None:
    """Migrate what a database, its log store, its lake and its targets have stored to this version's formats.

    Lists each store with its format, the one that it has afterwards, the least formats of versions that may read and
    write it then, and why it is refused. Each step is atomic; a command that was killed is repeated. Nothing is
    migrated if one of the stores cannot be: a newer version wrote it (RT-1134), it was written before formats had
    numbers (RT-1136), or it cannot be read.
    """
    from rowtide.upgrading.upgrade import find_upgrades, upgrade as run_upgrade

    visit = find_upgrades if dry_run else run_upgrade
    found = visit(db, None if subscribers else ())
    print_rows(_COLUMNS, (row for one in found for row in _rows_of(one)), form)
    own = found[0].present
    for place in own.foreign:
        notes.print(f"{place}: it has rowtide's name, and none of its tables; nothing was done with it.")
    for line in _describe_readers(found):
        notes.print(line, soft_wrap=True)
    if not subscribers and own.subscribers:
        notes.print(
            f"Not listed: {len(own.subscribers)} subscribers of this database; --subscribers includes them.",
            soft_wrap=True,
        )
    for failure in (failure for one in found for failure in one.failures):
        raise failure
    notes.print(_summarize(sum(len(one.list_outdated()) for one in found), dry_run=dry_run))


def _rows_of(upgraded: DatabaseUpgrade) -> Iterator[list[object]]:
    is_halted = bool(upgraded.present.list_refusals())
    for store in upgraded.present.stores:
        yield _as_row(store, is_halted=is_halted)
    if upgraded.failure is not None:
        yield ["subscriber", upgraded.url, None, None, None, None, f"RT-{upgraded.failure.number}"]


def _as_row(store: PresentStore, *, is_halted: bool) -> list[object]:
    refusal, known = store.find_refusal(), store.format.recorded
    before = store.stored.number if store.stored is not None else getattr(refusal, "found", None)
    after = store.stored
    if before is not None and not is_halted and before < known.number:
        after = known
    least = (None, None) if after is None else (after.least_reader, after.least_writer)
    return [
        store.format.store,
        store.place,
        before,
        before if after is None else after.number,
        *least,
        f"RT-{refusal.number}" if refusal is not None else None,
    ]


def _describe_readers(found: Sequence[DatabaseUpgrade]) -> Iterator[str]:
    """Say of each kind of store that is migrated which versions can no longer read it, or write to it."""
    for known in dict.fromkeys(store.format for one in found for store in one.list_outdated()):
        yield (
            f"{known.store}: format {known.number} is read by versions that know format {known.least_reader} or later, "
            f"and written by those that know format {known.least_writer} or later."
        )


def _summarize(outdated: int, *, dry_run: bool) -> str:
    if not outdated:
        return "Every store has this version's format."
    return f"{outdated} of them would be migrated; nothing was changed." if dry_run else f"{outdated} were migrated."


@app.command(epilog="Example: rowtide grant watcher --as monitor --db postgresql://localhost/shop")
def grant(
    role: Annotated[str, Argument(metavar="ROLE", help="a role that exists, as PostgreSQL stores its name")],
    purpose: Annotated[Purpose, Option("--as", help="What the role is for.")],
    db: Db,
    *,
    table: Annotated[
        list[str] | None,
        Option("--table", metavar="TABLE", help="Rights in this table; may be repeated; default: all that are used."),
    ] = None,
    group: Annotated[
        str | None,
        Option("--group", metavar="GROUP", help="Grant the rights to this role, and make ROLE a member of it."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Grant a role the rights that it needs for a purpose, in one transaction, and print the statements.

    Rights that the role has are not granted again. No role is created. `--as monitor` also makes the views that it
    reads through, without values of rows; run it again after another feature was enabled.
    """
    granted = connect(db).grant(role, purpose, table or (), group=group, dry_run=dry_run)
    for statement in granted.statements:
        print(f"{statement};")
    for statement in granted.not_granted:
        notes.print(f"Not granted, as it takes a superuser: {statement};", soft_wrap=True)
    for statement in granted.ownership:
        notes.print(f"Not run, as it changes the owner of a superuser's table: {statement};", soft_wrap=True)
    for name in granted.lacking:
        notes.print(f"There is no table {name} yet: delivery creates it, and {role} owns it.", soft_wrap=True)
    if not (granted.statements or granted.not_granted or granted.ownership):
        notes.print(f"The role has what it needs as {purpose}; nothing was changed.")


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


@listing(
    app,
    epilog="Example: rowtide audit --format csv --db postgresql://localhost/shop",
    columns="begun_at, actor, action, subject, outcome, result",
    json_texts=("arguments",),
)
def audit(
    db: AnyDb,
    limit: Annotated[int, Option(help="The most that are listed.", min=1, max=MOST_ROWS)] = 1000,
    *,
    keep_days: Annotated[
        int | None,
        Option(
            "--keep-days",
            metavar="DAYS",
            help="Delete older entries first. Without it the next action deletes those older than `audit_days` of the "
            "configuration file, 365 days by default.",
            min=1,
            show_default=False,
        ),
    ] = None,
) -> Listed:
    """List who did what, newest first: pauses, jobs started and stopped, validations, decisions, reinitializations.

    Commands of the command line and actions of the monitor's pages, each with its result. An entry without an end is of
    an action that runs, or whose process has died.
    """
    from rowtide.actions.entries import ActionEntry

    actions = connect(db).actions
    if keep_days is not None:
        notes.print(f"Deleted {actions.purge(keep_days):,} entries.")
    return ActionEntry, actions.list_entries(limit=limit)
