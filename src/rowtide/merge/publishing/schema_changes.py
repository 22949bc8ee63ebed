"""Changes of a publication's schema at the hub: noticed in the catalogue, and recorded (SQL Server:
sysmergeschemachange).

Any program may alter a published table. The next synchronisation finds that the catalogue has changed, records the
change in the article's definition, and recreates its triggers; subscribers follow when they synchronise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, get_args
from uuid import uuid4

from sqlalchemy import Connection, func, insert, select, update

from rowtide.core.failpoints import failpoint
from rowtide.core.options import WordUnknown
from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ArticleColumn, Publication
from rowtide.merge.catalogue import (
    get_publication,
    list_all_articles,
    list_articles,
    list_publications,
    read_nickname,
    set_definition,
)
from rowtide.merge.conflicts.records import rename_columns
from rowtide.merge.conflicts.resolvers import find_resolver
from rowtide.merge.definitions import schema_changes, subscriptions
from rowtide.merge.errors.publishing import (
    ColumnNeeded,
    FilterRefused,
    KeyChanged,
    MergedTableAltered,
    ResolverUnknown,
    SchemaChangeUnknown,
)
from rowtide.merge.handlers import find_handler
from rowtide.merge.nodes.node import Node, retry_busy
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.table_definitions import PartKind, TableChange, write_shape
from rowtide.merge.partitions.filters import follow_renames
from rowtide.merge.publishing.filter_checks import check_filter, check_join
from rowtide.merge.publishing.vertical_partitions import order_articles, restrict
from rowtide.merge.session.pairing import HUB, SchemaVersion, find_lost

SchemaStatus = Literal["active", "skipped"]
_OPTIONS = (
    "subset_filter",
    "resolver",
    "column_tracking",
    "compensate_for_errors",
    "partition_options",
    "on_unseen_children",
)


@frozen
class SchemaChange:
    """A change of a publication's schema (SQL Server: sp_enumeratependingschemachanges).

    `schemastatus` is `skipped` if subscribers do not make it themselves. `pending` are the subscribers that have not
    followed it yet.
    """

    article_name: str
    schemaversion: int
    schematype: str
    schematext: str
    schemastatus: str
    schemaguid: str
    pending: tuple[str, ...]


def define(described: TableDescription, before: Article, *, renamed: Mapping[str, str] = {}) -> Article:
    """Return an article's definition with the columns that its table has now.

    Columns keep their order and numbers, new ones come last; an article with a list of columns gets none. A column that
    was dropped and added again is a new one in the catalogue.
    """
    is_same_table = before.table_id == described.table_id
    found = {column.name: column for column in described.columns}
    kept: list[ArticleColumn] = []
    number = before.last_number or len(before.columns)
    for place, column in enumerate(before.columns, 1):
        now = found.get(renamed.get(column.name, column.name))
        if now is None or (is_same_table and None not in (column.attnum, now.attnum) and column.attnum != now.attnum):
            continue
        kept.append(replace(found.pop(now.name), number=column.number or place))
    for now in () if before.vertical_partition else found.values():
        number += 1
        kept.append(replace(now, number=number))
    after = replace(before, columns=tuple(kept))
    published, _ = restrict(after, described)
    return replace(
        after,
        unique_columns=_unique_columns(published),
        last_number=number,
        table_id=described.table_id,
        fingerprint=described.fingerprint,
        shape=write_shape(published.parts),
        resolver=_renamed_resolver(before.resolver, renamed),
    )


def _unique_columns(described: TableDescription) -> tuple[str, ...]:
    """Return a table's columns that are in any unique key, or that a generated column of one is computed from."""

    def is_unique(name: str) -> bool:
        return any(name in key for key in described.unique_keys) or any(
            part.is_unique and part.names(name) for part in described.parts
        )

    computed = [part for part in described.parts if part.kind is PartKind.GENERATED and is_unique(part.name)]
    return tuple(
        column.name
        for column in described.columns
        if column.key_ordinal or is_unique(column.name) or any(part.names(column.name) for part in computed)
    )


def notice(hub: Node, publication: Publication, *, reinitializes: bool = False) -> None:
    """Record what was altered in the hub's tables in the definitions of a publication's articles. Idempotent.

    `reinitializes` as for `redefine`. Raises `KeyChanged`, `ColumnNeeded`, `NodeBusy`, `MergedTableAltered`.
    """
    listed = list_all_articles(hub.connection, publication.pubid)
    examination = hub.tables.examine(listed)
    for article in listed if publication.publisher == read_nickname(hub.connection) else ():
        if examination.fingerprints.get(article.nickname) not in (None, article.fingerprint):
            retry_busy(partial(redefine, hub, article, reinitializes=reinitializes))


def read_version(connection: Connection, publication: Publication) -> SchemaVersion:
    """Return the last change of a publication's schema."""
    c = schema_changes.c
    last = select(c.schemaversion, c.schemaguid).where(c.pubid == publication.pubid).order_by(c.schemaversion.desc())
    found = connection.execute(last.limit(1)).one_or_none()
    return SchemaVersion(0, None) if found is None else SchemaVersion(*found)


def record(
    connection: Connection, publication: Publication, article: Article, changes: Iterable[tuple[str, int | None, str]]
) -> None:
    """Record changes of an article, each with its type, column's number and text, in the caller's transaction."""
    last = select(func.max(schema_changes.c.schemaversion)).where(schema_changes.c.pubid == publication.pubid)
    version = connection.execute(last).scalar() or 0
    for place, (kind, column, text) in enumerate(changes, 1):
        connection.execute(
            insert(schema_changes).values(
                pubid=publication.pubid,
                schemaversion=version + place,
                schemaguid=str(uuid4()),
                article_name=article.name,
                column_number=column,
                schematype=kind,
                schematext=text,
            )
        )


def dropped_at(connection: Connection, publication: Publication, article: Article) -> int:
    """Return the schema version at which an article was dropped."""
    c = schema_changes.c
    of_article = (c.pubid == publication.pubid) & (c.article_name == article.name) & (c.schematype == "drop article")
    return connection.execute(select(func.max(c.schemaversion)).where(of_article)).scalar() or 0


def list_schema_changes(hub: Node, publication: Publication) -> Sequence[SchemaChange]:
    """Return the schema changes that a subscriber has not followed yet, oldest first."""
    connection, c = hub.connection, schema_changes.c
    known = select(subscriptions.c.subscriber_server, subscriptions.c.schemaversion)
    versions = connection.execute(known.where(subscriptions.c.pubid == publication.pubid)).all()
    rows = connection.execute(
        select(schema_changes).where(c.pubid == publication.pubid).order_by(c.schemaversion)
    ).mappings()
    found = (
        SchemaChange(
            row["article_name"],
            row["schemaversion"],
            row["schematype"],
            row["schematext"],
            row["schemastatus"],
            row["schemaguid"],
            tuple(sorted(name for name, version in versions if version < row["schemaversion"])),
        )
        for row in rows
    )
    return [change for change in found if change.pending]


def mark_schema_change(hub: Node, publication_name: str, version: int, status: SchemaStatus) -> None:
    """Let subscribers apply a schema change, or leave it to their users (SQL Server: sp_markpendingschemachange).

    Raises `WordUnknown`, `MergePublicationUnknown`, `SchemaChangeUnknown`.
    """
    if status not in get_args(SchemaStatus):
        raise WordUnknown("status", repr(status), " or ".join(get_args(SchemaStatus)))
    publication = get_publication(hub.connection, publication_name)
    of_change = (schema_changes.c.pubid == publication.pubid) & (schema_changes.c.schemaversion == version)
    with hub.transaction():
        if hub.connection.execute(select(schema_changes.c.schemaguid).where(of_change)).first() is None:
            raise SchemaChangeUnknown(publication_name, version)
        hub.connection.execute(update(schema_changes).where(of_change).values(schemastatus=status))


def list_by_hand(connection: Connection, publication: Publication, article: Article, since: int) -> set[int]:
    """Return the numbers of an article's columns whose changes after a version are left to subscribers' users."""
    c = schema_changes.c
    of_article = (c.pubid == publication.pubid) & (c.article_name == article.name) & (c.schemaversion > since)
    rows = connection.execute(select(c.column_number, c.schemastatus).where(of_article)).all()
    active = {number for number, status in rows if status != "skipped"}
    return {number for number, _ in rows if number is not None and number not in active}


def redefine(
    hub: Node,
    noticed: Article,
    change: Callable[[Publication, Article], Article] = lambda _publication, article: article,
    *,
    clause: str | None = None,
    reinitializes: bool = False,
) -> None:
    """Define a table's articles as the table is now, in all publications of this node that have it, in one transaction.

    `change` is made to each definition in addition; `clause`, of `alter table`, to the table before. A table that has
    lost its triggers is refused; one of which subscribers are reinitialized stays without them. Raises `KeyChanged`,
    `ColumnNeeded`, `TableNotAltered`, `NodeBusy`, `MergedTableAltered`.
    """
    lost = find_lost(hub, noticed)
    if lost is not None and not reinitializes:
        # With new triggers, nothing would show that changes made without them are unknown.
        raise MergedTableAltered(HUB, noticed.qualified_name, lost)
    with hub.transaction():
        hub.tables.lock(noticed)
        if clause is not None:
            hub.tables.run_alter(noticed, clause)
        described = hub.tables.describe(noticed.qualified_name)
        own = read_nickname(hub.connection)
        present = list(_articles_of(hub.connection, noticed.nickname))
        published = [(publication, article) for publication, article in present if publication.publisher == own]
        renamed = hub.tables.find_renames(noticed, described)
        # A republisher has the columns of the publisher above it, and no others.
        is_republished = present != published
        found = _definitions(hub.connection, published, described, renamed, is_republished=is_republished)
        definitions = [(publication, article, change(publication, now)) for publication, article, now in found]
        if clause is None and all(article == now for _, article, now in definitions):
            return
        others = {each.pubid: list_articles(hub.connection, each.pubid) for each, _ in published}
        _, before, after = definitions[0]
        hub.versions.redefine(before, after)
        for publication, article, now in definitions:
            _require_resolver(now)
            set_definition(hub.connection, publication.pubid, now)
            record(hub.connection, publication, now, _steps(article, now, described))
            rename_columns(hub.connection, publication.pubid, article.nickname, renamed)
            _follow_elsewhere(hub.connection, publication, others[publication.pubid], article, renamed)
            order_articles(hub, publication)
            _require_filters(hub, publication, now)
        if lost is None:
            hub.tables.track(after)
        hub.tables.renew_views()
        failpoint("merge_schema_change.noticed")
    hub.forget_tables()


def _definitions(
    connection: Connection,
    published: Sequence[tuple[Publication, Article]],
    described: TableDescription,
    renamed: Mapping[str, str],
    *,
    is_republished: bool,
) -> Iterator[tuple[Publication, Article, Article]]:
    """Yield a table's articles as they were, and as the table is now, with their publications."""
    is_sent = all(publication.replicates_ddl for publication, _ in published)
    for publication, article in published:
        now = _definition(article, described, renamed, is_sent=is_sent, is_republished=is_republished)
        listed = {each.name: each for each in list_articles(connection, publication.pubid)}
        yield publication, article, follow_renames(now, listed, article, renamed) if article.name in listed else now


def _follow_elsewhere(
    connection: Connection,
    publication: Publication,
    listed: Sequence[Article],
    altered: Article,
    renamed: Mapping[str, str],
) -> None:
    """Rename an article's columns in the filters of a publication's other articles."""
    names = {article.name: article for article in listed}
    for article in listed if renamed else ():
        now = article if article.nickname == altered.nickname else follow_renames(article, names, altered, renamed)
        if now != article:
            set_definition(connection, publication.pubid, now)
            record(connection, publication, now, _option_steps(article, now))


def _steps(before: Article, after: Article, described: TableDescription) -> Iterator[tuple[str, int | None, str]]:
    for kind, number, text in TableChange(before, after, described.kind).steps():
        yield kind, number, f"alter table {after.qualified_name} {text}"
    yield from _option_steps(before, after)


def _option_steps(before: Article, after: Article) -> Iterator[tuple[str, int | None, str]]:
    changed = [f"{name} {getattr(after, name)}" for name in _OPTIONS if getattr(before, name) != getattr(after, name)]
    if before.join_filters != after.join_filters:
        changed += [f"join {join.parent} on {join.condition}" for join in after.join_filters]
    if changed:
        yield "change article", None, f"{after.qualified_name}: {', '.join(changed)}"


def _definition(
    before: Article,
    described: TableDescription,
    renamed: Mapping[str, str],
    *,
    is_sent: bool,
    is_republished: bool,
) -> Article:
    now = define(described, before, renamed=renamed)
    _require_key(before, now, renamed)
    if is_republished:
        return replace(now, columns=tuple(column for column in now.columns if before.same_column(column) is not None))
    if is_sent:
        return now
    # What is not sent is as it was, but for columns that no longer exist.
    there = {column.name for column in now.columns} - set(renamed.values())
    kept = tuple(column for column in before.columns if column.name in there)
    return replace(before, columns=kept, fingerprint=now.fingerprint, table_id=now.table_id)


def _articles_of(connection: Connection, nickname: int) -> Iterator[tuple[Publication, Article]]:
    for publication in list_publications(connection):
        for article in list_all_articles(connection, publication.pubid):
            if article.nickname == nickname:
                yield publication, article


def _require_key(before: Article, after: Article, renamed: Mapping[str, str]) -> None:
    was = [renamed.get(column.name, column.name) for column in before.key_columns]
    now = [column.name for column in after.key_columns]
    if was != now:
        raise KeyChanged(after.qualified_name, ", ".join(was), ", ".join(now))


def _require_resolver(article: Article) -> None:
    """Raise `ColumnNeeded` if the resolver of an article uses a column that it has not."""
    try:
        if find_handler(article) is None:
            find_resolver(article)
    except ResolverUnknown as error:
        raise ColumnNeeded("the resolver", article.qualified_name, f"{error.resolver} is none of its") from None


def _require_filters(hub: Node, publication: Publication, article: Article) -> None:
    """Raise `ColumnNeeded` if a filter uses a column that an article has not; of others, those that follow it."""
    listed = list_articles(hub.connection, publication.pubid)
    names = {each.name: each for each in listed}
    altered = hub.tables.examine(listed).fingerprints
    waiting = {each.name for each in listed if altered.get(each.nickname) not in (None, each.fingerprint)}
    for child in listed:
        try:
            if child.name == article.name:
                check_filter(hub, child)
            for join in child.join_filters:
                ends = {child.name, join.parent}
                # Joins with a table that was altered, too, are checked once that is recorded.
                if article.name in ends and not ends & waiting:
                    check_join(hub, child, names[join.parent], join)
        except FilterRefused as error:
            purpose = f"filter {error.condition}"
            raise ColumnNeeded(purpose, child.qualified_name, error.reason) from None


def _renamed_resolver(resolver: str, renamed: Mapping[str, str]) -> str:
    name, colon, argument = resolver.partition(":")
    column, *option = argument.partition(":")
    return f"{name}{colon}{renamed.get(column, column)}{''.join(option)}"
