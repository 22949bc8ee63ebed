"""`rowtide cdc`: rules by which new tables are enabled."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument
from rowtide.handle import connect

app = CommandTable()

_LISTED_RULE = {
    "rule": "rule_name",
    "except": "excluding",
    "enabled": "enabled",
    "failed": "failed",
    "role": "role_name",
    "before_images": "before_images",
    "created": "created_at",
}
_LISTED_TABLE = {
    "schema": "source_schema",
    "table": "source_table",
    "outcome": "outcome",
    "reason": "reason",
    "considered": "considered_at",
}


@app.command(
    epilog="Examples: rowtide cdc table-rules --db postgresql://localhost/shop; "
    "rowtide cdc table-rules 'public.*' --db postgresql://localhost/shop"
)
def table_rules(
    db: Db,
    rule: Annotated[str | None, Argument(metavar="RULE", help="Its tables; default: list the rules.")] = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """List the rules of `enable-table --with-new-tables`, or the tables that one has considered.

    A table is enabled in the transaction that creates, renames or moves it; where event triggers may not be created,
    and for tables that need a decision, by the process that captures, within seconds.
    """
    from rowtide.cdc.enabling.table_rules import RuledTable, TableRule

    cdc = connect(db).cdc
    if rule is not None:
        print_listed(RuledTable, cdc.list_ruled_tables(rule), form, _LISTED_TABLE, wide=wide)
        return
    print_listed(TableRule, cdc.list_table_rules(), form, _LISTED_RULE, wide=wide)


@app.command(epilog="Example: rowtide cdc drop-table-rule 'public.*' --db postgresql://localhost/shop")
def drop_table_rule(db: Db, rule: Annotated[str, Argument(metavar="RULE", help="Its name: the patterns.")]) -> None:
    """Drop a rule: new tables are no longer enabled; those that it enabled stay enabled."""
    connect(db).cdc.drop_table_rule(rule)
    notes.print("Dropped.")
