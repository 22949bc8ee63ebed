"""`rowtide upgrade`: migrate stores to this version's formats."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, ListingFormat
from rowtide.cli.output.rows import OutputFormat, notes, print_rows
from rowtide.core.options import Option

if TYPE_CHECKING:
    from rowtide.core.errors import RowtideError
    from rowtide.core.formats import PresentStore

app = CommandTable()


@app.command(epilog="Example: rowtide upgrade --dry-run --db postgresql://localhost/shop")
def upgrade(
    db: AnyDb,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="List the stores, and migrate none.")] = False,
) -> None:
    """Migrate what a database, its log store, its lake and its targets have stored to this version's formats.

    Lists each store with its format, the one that it has afterwards, and why it is refused. Each step is atomic; a
    command that was killed is repeated. Nothing is migrated if one of the stores cannot be: a newer version wrote it
    (RT-1134), it was written before formats had numbers (RT-1136), or it cannot be read.
    """
    from rowtide.upgrading.present import find_present

    present = find_present(db)
    refusals = [store.find_refusal() for store in present.stores]
    outdated = [store for store in present.stores if store.find_refusal() is None and store.list_steps()]
    if not dry_run and not any(refusals):
        for store in outdated:
            store.migrate()
    names = ["store", "place", "format", "upgraded_to", "refused"]
    print_rows(names, map(partial(_as_row, is_halted=any(refusals)), present.stores, refusals), form)
    for place in present.foreign:
        notes.print(f"{place}: it has rowtide's name, and none of its tables; nothing was done with it.")
    for refusal in filter(None, refusals):
        raise refusal
    notes.print(_summarize(len(outdated), dry_run=dry_run))


def _as_row(store: PresentStore, refusal: RowtideError | None, *, is_halted: bool) -> list[object]:
    before = store.stored.number if store.stored is not None else getattr(refusal, "found", None)
    after = before if is_halted or before is None else max(before, store.format.number)
    return [store.format.store, store.place, before, after, f"RT-{refusal.number}" if refusal is not None else None]


def _summarize(outdated: int, *, dry_run: bool) -> str:
    if not outdated:
        return "Every store has this version's format."
    return f"{outdated} of them would be migrated; nothing was changed." if dry_run else f"{outdated} were migrated."
