"""`rowtide upgrade`: migrate stores to this version's formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, ListingFormat
from rowtide.cli.output.rows import OutputFormat, notes, print_rows
from rowtide.core.options import Option

if TYPE_CHECKING:
    from rowtide.core.formats import PresentStore
    from rowtide.upgrading.databases import DatabaseUpgrade

app = CommandTable()

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
    from rowtide.upgrading.databases import find_upgrades, upgrade as run_upgrade

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
