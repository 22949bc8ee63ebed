"""`rowtide upgrade`: migrate stores to this version's formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, ListingFormat
from rowtide.cli.output.rows import Format, notes, print_rows
from rowtide.core.options import Option

if TYPE_CHECKING:
    from rowtide.core.upgrades import PresentStore

app = CommandTable()


@app.command(epilog="Example: rowtide upgrade --dry-run --db postgresql://localhost/shop")
def upgrade(
    db: AnyDb,
    form: ListingFormat = Format.TABLE,
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="List the stores, and migrate none.")] = False,
) -> None:
    """Migrate what a database, its log store, its lake and its targets have stored to this version's formats.

    Lists each store with its format and the one that it has afterwards. Each step is atomic; a command that was killed
    is repeated. Nothing is migrated if one of the stores cannot be: a newer version wrote it (RT-1134), or it was
    written before formats had numbers (RT-1136).
    """
    from rowtide.upgrading.present import list_stores

    stores = list_stores(db)
    outdated = [store for store in stores if store.list_steps()]
    for store in outdated if not dry_run else ():
        store.migrate()
    names = ["store", "place", "format", "upgraded_to"]
    print_rows(names, map(_as_row, stores), form)
    notes.print(_summarize(len(outdated), dry_run=dry_run))


def _as_row(store: PresentStore) -> list[object]:
    before = store.stored.number if store.stored is not None else 0
    return [store.format.store, store.place, before, max(before, store.format.number)]


def _summarize(outdated: int, *, dry_run: bool) -> str:
    if not outdated:
        return "Every store has this version's format."
    return f"{outdated} of them would be migrated; nothing was changed." if dry_run else f"{outdated} were migrated."
