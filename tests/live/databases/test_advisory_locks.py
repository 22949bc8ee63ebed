"""Keys of advisory locks that the server computes from texts."""

from sqlalchemy import text

from builders.capture.captured_databases import LoggedDatabase
from rowtide.databases.postgres import advisory_locks
from rowtide.databases.postgres.connect import open_engine


def test_computed_keys_are_no_other_locks(logged: LoggedDatabase) -> None:
    computed = f"select {advisory_locks.SUBSCRIBER_TABLES}, {advisory_locks.CONFLICT_COMMENTS}"
    with open_engine(logged.url).connect() as connection:
        subscriber_tables, conflict_comments = connection.execute(text(computed)).one()
    numbers = {value for name, value in vars(advisory_locks).items() if name.isupper() and isinstance(value, int)}
    first = advisory_locks.FIRST_IDENTITY_RANGE
    assert subscriber_tables != conflict_comments
    assert numbers.isdisjoint({subscriber_tables, conflict_comments})
    assert not first <= subscriber_tables < first + 2**31
    assert not first <= conflict_comments < first + 2**31
