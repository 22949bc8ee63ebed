"""What is known of a table before it is copied."""

from __future__ import annotations

import psycopg

from rowtide.copying.present_tables import find_present


def test_rows_are_estimated_by_the_pages_that_are_there(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as own:
        own.execute("create table item (id int primary key, at int) partition by range (id)")
        own.execute("create table low partition of item for values from (0) to (1000000)")
        (source_id,) = own.execute("select 'item'::regclass::oid").fetchone() or (0,)

        def estimate() -> int | None:
            found = find_present(own, source_id, (1, 2))
            assert found is not None
            return found.rows

        assert estimate() == 0
        own.execute("insert into item select n, n from generate_series(1, 10000) n")
        # Making the key's index has counted an empty table.
        assert estimate() is None
        own.execute("analyze item")
        assert estimate() == 10000
        own.execute("insert into item select n, n from generate_series(10001, 30000) n")
        assert abs((estimate() or 0) - 30000) < 1000
