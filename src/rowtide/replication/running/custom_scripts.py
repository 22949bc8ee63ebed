"""What an article's custom script does after a schema change: its SQL, or what a user's function returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from sqlalchemy import Engine

from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import CustomSql, Followed, NullsChanged
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.distributor.script_records import find_script
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import CommandRefused, CustomScriptFailed
from rowtide.replication.targets.postgres.calls.procedures import parameters_of

_OPERATIONS = {"insert": Operation.INSERT, "update": Operation.UPDATE, "delete": Operation.DELETE}


@frozen
class ScriptedChange:
    """A schema change for which a custom script is asked; names and types are the publisher's.

    `columns` are the published columns after it, `earlier_columns` those before, with their types. `parameters` are
    those that procedures for `insert`, `update` and `delete` have to take from now on, with their types. The text that
    the function returns runs at the subscriber, in the transaction of the change; empty: nothing runs.
    """

    publication: str
    subscriber: str
    lsn: str
    schema: str
    table: str
    columns: Sequence[tuple[str, str]]
    earlier_columns: Sequence[tuple[str, str]]
    parameters: Mapping[str, Sequence[tuple[str, str]]]


@frozen
class CustomScripting:
    """Finds the scripts of one subscription's articles."""

    context: DeliveryContext
    subscription: Subscription

    def complete(self, followed: Followed, lsn: CommitLsn) -> Followed:
        """Return what a transaction changes of an article, with its custom script. Raises `CustomScriptFailed`."""
        if not followed.changes:
            return followed
        with translated(), self.context.engine.connect() as connection:
            script = find_script(connection, followed.article.article_id, lsn)
        if script is None:
            return followed
        text = script.text if script.text is not None else self._ask(script.name, followed, lsn)
        return replace(followed, script=CustomSql(script.name, str(lsn), text)) if text.strip() else followed

    def _ask(self, name: str, followed: Followed, lsn: CommitLsn) -> str:
        article = followed.article
        module, _, function = name.partition(":")
        table = article.qualified_name
        try:
            written = getattr(import_module(module), function)(self._describe(followed, lsn))
        except (Exception, SystemExit) as error:
            # Whatever a function of the user's raises, or its module as it is imported.
            raise CustomScriptFailed(name, table, str(lsn), f"{type(error).__name__}: {error}") from error
        if not isinstance(written, str):
            raise CustomScriptFailed(name, table, str(lsn), f"it returned {type(written).__name__}, not SQL")
        return written

    def _describe(self, followed: Followed, lsn: CommitLsn) -> ScriptedChange:
        article = followed.article
        return ScriptedChange(
            publication=self.subscription.publication,
            subscriber=redact(self.subscription.subscriber),
            lsn=str(lsn),
            schema=article.schema,
            table=article.table,
            columns=_columns(article),
            earlier_columns=_columns(followed.before),
            parameters={name: tuple(parameters_of(article, operation)) for name, operation in _OPERATIONS.items()},
        )


def _columns(article: Article) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, column.type_text) for column in article.columns)


_NULL_REFUSED = ("23502", "SQLITE_CONSTRAINT_NOTNULL")


def find_allowed(engine: Engine, articles: Iterable[Article], error: CommandRefused) -> Followed | None:
    """Return what lets a subscriber take nulls that it has refused; None unless its publisher's table has them."""
    article = next((one for one in articles if f"{one.schema}.{one.table}" == error.table), None)
    if article is None or error.sqlstate not in _NULL_REFUSED:
        return None
    with translated(), engine.connect() as connection:
        table = find_by_id(connection, article.source_id)
    nullable = {column.number for column in table.columns if column.is_nullable} if table is not None else set()
    columns = tuple(
        replace(column, is_nullable=column.is_nullable or column.number in nullable) for column in article.columns
    )
    changed = (NullsChanged(now) for now, known in zip(columns, article.columns, strict=True) if now != known)
    followed = Followed(article, replace(article, columns=columns), tuple(changed))
    return followed if followed.changes else None
