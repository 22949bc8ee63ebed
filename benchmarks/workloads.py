"""The workloads: what lies in the tables beforehand, and the transactions of the log that is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

NARROW = "bucket int, amount bigint"
NARROW_VALUES = "i % 1000, i * 7"
TWENTY = ", ".join(f"c{number} {('int', 'bigint', 'text', 'numeric(12, 2)')[number % 4]}" for number in range(19))
TWENTY_VALUES = ", ".join(f"{('i', 'i * 7', 'md5(i::text)', 'i / 100.0')[number % 4]}" for number in range(19))
# Four columns of 480 characters that do not compress: just small enough to stay in the row.
TWO_KILOBYTES = "a text, b text, c text, d text"
TWO_KILOBYTES_VALUES = ", ".join(
    f"(select string_agg(md5(concat(i, '{name}', part)), '') from generate_series(1, 15) part)" for name in "abcd"
)


@dataclass(frozen=True, slots=True)
class Workload:
    """Rows of keys that follow one another, written to `tables` in turn, so many in a transaction.

    `columns` come after the key `id bigint primary key`; `values` are their expressions over the key `i`. `change`
    is a statement over the keys from {first} to {last} of {table} that are there already; None inserts them.
    """

    name: str
    rows: int
    rows_per_transaction: int = 5_000
    tables: int = 1
    columns: str = NARROW
    values: str = NARROW_VALUES
    change: str | None = None

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(f"measured_{number}" for number in range(self.tables))

    def transactions(self, rows: int) -> int:
        """Return how many transactions so many rows are."""
        return -(-rows // self.rows_per_transaction)

    def definitions(self) -> Iterator[str]:
        """Yield the statements that make the tables."""
        for table in self.table_names:
            yield f"create table {table} (id bigint primary key, {self.columns})"

    def filling(self, rows: int) -> Iterator[str]:
        """Yield the statements that write what is changed later, nothing for inserts."""
        if self.change is not None:
            yield _insert(self.table_names[0], self.values, 1, rows)

    def statements(self, first: int, rows: int) -> Iterator[str]:
        """Yield statements over the keys from `first` on: one a transaction, or one that commits for itself."""
        if self.rows_per_transaction == 1:
            yield _commit_each(self.table_names[0], self.values, first, first + rows - 1)
            return
        for start in range(first, first + rows, self.rows_per_transaction):
            last = min(start + self.rows_per_transaction, first + rows) - 1
            yield self._transaction(start, last)

    def _transaction(self, first: int, last: int) -> str:
        if self.change is not None:
            return self.change.format(table=self.table_names[0], first=first, last=last)
        if self.tables == 1:
            return _insert(self.table_names[0], self.values, first, last)
        return _interleave(self.tables, self.values, first, last)


def _insert(table: str, values: str, first: int, last: int) -> str:
    return f"insert into {table} select i, {values} from generate_series({first}, {last}) i"


def _commit_each(table: str, values: str, first: int, last: int) -> str:
    return f"do $$ begin for i in {first}..{last} loop insert into {table} select i, {values}; commit; end loop; end $$"


def _interleave(tables: int, values: str, first: int, last: int) -> str:
    """A row of one table, then a row of the next."""
    insert = f"insert into measured_%s select i, {values} from (select $1 as i)"
    return (
        f"do $$ begin for i in {first}..{last} loop "
        f"execute format('{insert.replace('%', '%%').replace('%%s', '%s')}', i % {tables}) using i; "
        "end loop; end $$"
    )


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("inserts", 1_000_000),
        Workload("inserts-5m", 5_000_000),
        Workload(
            "updates", 1_000_000, change="update {table} set amount = amount + 1 where id between {first} and {last}"
        ),
        Workload("deletes", 1_000_000, change="delete from {table} where id between {first} and {last}"),
        Workload("single-rows", 200_000, rows_per_transaction=1),
        Workload("20-columns", 1_000_000, columns=TWENTY, values=TWENTY_VALUES),
        Workload("2-kb-rows", 200_000, columns=TWO_KILOBYTES, values=TWO_KILOBYTES_VALUES),
        Workload("4-tables", 1_000_000, tables=4),
        Workload("50-tables", 1_000_000, tables=50),
    )
}
LATENCY = "latency"
"""Not a log that is gone through: a load, and how long its transactions take to be queryable."""

DEFAULT = ("inserts", "single-rows", "4-tables", LATENCY)
"""What fits in ten minutes."""
