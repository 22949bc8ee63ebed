"""Transactional replication as it is declared: publications, articles and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from rowtide.core.formats import StoreFormat
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.declared.effects import DeclaredChange, Effects, nothing, refuse
from rowtide.declared.kinds import ARTICLE, DISTRIBUTION, PUBLICATION, SUBSCRIPTION
from rowtide.declared.state import DeclaredObject, State, describe, list_of
from rowtide.declared.tables import spell_table
from rowtide.handle import Database
from rowtide.log.catalogue import find_source
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor.definitions import agents, is_made, publications, subscriptions
from rowtide.replication.distributor.location import distributor, find_place
from rowtide.replication.distributor.publication_records import list_articles
from rowtide.replication.publishing.restarting import find_own_source
from rowtide.replication.subscription_settings import SubscriptionSettings, SyncType


def read(database: Database) -> Iterator[DeclaredObject]:
    """Yield what is published, and to whom."""
    with translated(), open_engine(database.url).connect() as connection:
        if find_source(connection, StoreFormat.require_readable) is None or not is_made(connection):
            return
        distribution = _distribution(connection)
        if distribution.options:
            yield distribution
        columns = publications.c
        wanted = select(
            columns.publication_id,
            columns.publication.label("name"),
            columns.replicate_ddl,
            columns.latency_threshold_s,
            columns.expiration_threshold,
        )
        for row in distributor(connection).execute(wanted.order_by(columns.publication)).mappings().all():
            yield describe(PUBLICATION, [row["name"]], {name: row[name] for name in PUBLICATION.keys})
            for article in list_articles(connection, row["publication_id"]):
                yield _article(connection, article)
        yield from _subscriptions(connection)


def _distribution(connection: Connection) -> DeclaredObject:
    place, source = find_place(connection), find_own_source(connection)
    values = {"distribution_db": None if place is None else place.url}
    if source is not None:
        values["lake"] = source.lake
        values["log_store"] = source.log_store if source.log_store != f"{source.lake}/log" else None
    return describe(DISTRIBUTION, (), values)


def _article(connection: Connection, article: Article) -> DeclaredObject:
    table = find_by_id(connection, article.source_id)
    name = (article.schema, article.table) if table is None else (table.schema, table.name)
    columns = [column.name for column in article.columns]
    images = BeforeImages.FULL if article.needs_whole_rows else BeforeImages.KEY
    values = {
        "insert_command": str(article.insert),
        "update_command": str(article.update),
        "delete_command": str(article.delete),
        "columns": None if article.has_all_columns else columns,
        "where": article.filter_clause,
        "before_images": None if article.before_images is images else article.before_images,
        "key_updates": article.key_updates,
        "moved_partitions": article.moved_partitions,
    }
    implied = {"columns": columns, "before_images": article.before_images}
    names = [article.publication, spell_table(*name)]
    # What the log carries of the table anyway decides where the file says nothing.
    return describe(ARTICLE, names, values, implied=implied, tolerated=["before_images"])


def _subscriptions(connection: Connection) -> Iterator[DeclaredObject]:
    columns = agents.c
    query = (
        select(
            publications.c.publication,
            columns.subscriber,
            columns.constraints,
            columns.forwards,
            columns.settings,
            func.min(subscriptions.c.sync_type).label("sync_type"),
        )
        .select_from(agents.join(publications).outerjoin(subscriptions))
        .where(columns.joins.is_(None))
        .group_by(publications.c.publication, columns.id)
    )
    for row in distributor(connection).execute(query):
        settings = SubscriptionSettings.decode(row.settings)
        values = {name: getattr(settings, name) for name in SUBSCRIPTION.keys if hasattr(settings, name)}
        values |= {
            "constraints": row.constraints and SUBSCRIPTION.keys["constraints"].type.read(row.constraints),
            "forward": row.forwards,
            "sync_type": SyncType(row.sync_type) if row.sync_type in _REPEATED else None,
        }
        yield describe(SUBSCRIPTION, [row.publication, row.subscriber], values, tolerated=_DECIDED)


_DECIDED = ("conflicts", "constraints", "forward")
"""Where these are not declared, they are decided when the subscription is added."""
_REPEATED = (SyncType.NONE, SyncType.REPLICATION_SUPPORT_ONLY)
"""Another subscription starts so, too; the others start at a position, which is not restored."""


def _add_publication(database: Database, publication: DeclaredObject, wanted: State) -> None:
    given, name = publication.arguments(), publication.names[0]
    thresholds = {option: given.pop(option) for option in PUBLICATION.changeable & given.keys()}
    places = next((one.arguments() for one in list_of(wanted, DISTRIBUTION)), {})
    database.replication.add_publication(**given, **places)
    if thresholds:
        database.replication.change_publication(publication=name, **thresholds)


def _change_publication(database: Database, change: DeclaredChange) -> None:
    # 0 is the default.
    given = {name: value or 0 for name, value in change.arguments().items()}
    database.replication.change_publication(publication=change.wanted.names[0], **given)


def _change_article(database: Database, change: DeclaredChange) -> None:
    publication, table = change.wanted.names
    given = change.arguments()
    if "where" in given and given["where"] is None:
        given = {**given, "without_filter": True}
    if "columns" in given:
        before = change.present.options.get("columns", change.present.implied["columns"])
        after = given.pop("columns")
        assert isinstance(before, list)
        assert isinstance(after, tuple)
        given["add_columns"] = tuple(one for one in after if one not in before)
        given["drop_columns"] = tuple(one for one in before if one not in after)
    if "if_exists" in change.wanted.options:
        given["if_exists"] = change.wanted.arguments()["if_exists"]
    database.replication.change_article(publication=publication, table=table, **given)


EFFECTS = {
    DISTRIBUTION.name: Effects(
        # The first publication brings it.
        add=nothing,
        change=lambda database, change: database.replication.move_distribution(
            str(change.wanted.options["distribution_db"])
        ),
        drop=refuse,
    ),
    PUBLICATION.name: Effects(
        add=_add_publication,
        change=_change_publication,
        drop=lambda database, publication: database.replication.drop_publication(publication.names[0]),
    ),
    ARTICLE.name: Effects(
        add=lambda database, article, _wanted: database.replication.add_article(**article.arguments()),
        change=_change_article,
        drop=lambda database, article: database.replication.drop_article(*article.names),
    ),
    SUBSCRIPTION.name: Effects(
        add=lambda database, subscription, _wanted: database.replication.add_subscription(**subscription.arguments()),
        change=lambda database, change: database.replication.change_subscription(
            *change.wanted.names,
            **change.arguments(),
        ),
        drop=lambda database, subscription: database.replication.drop_subscription(*subscription.names),
    ),
}
