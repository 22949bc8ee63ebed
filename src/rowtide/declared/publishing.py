"""Transactional replication as it is declared: publications, articles and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, func, select

from rowtide.core.formats import StoreFormat
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.declared.kinds import ARTICLE, DISTRIBUTION, PUBLICATION, SCHEMA_ARTICLE, SUBSCRIPTION, ArticleScript
from rowtide.declared.planning import DeclaredChange, DeclaredObject, Effects, State, describe, list_of, nothing, refuse
from rowtide.declared.values import spell_table
from rowtide.handle import Database
from rowtide.log.catalogue import find_source
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor import (
    definitions,
    location,
    publication_records,
    schema_article_records,
    script_records,
)
from rowtide.replication.distributor.retention import read_max_retention
from rowtide.replication.errors.publishing import ObjectNotFound, SchemaArticleUsesUnpublished
from rowtide.replication.publishing.publisher_log import find_own_source
from rowtide.replication.subscription_settings import SubscriptionSettings, SyncType


def read(database: Database) -> Iterator[DeclaredObject]:
    """Yield what is published, and to whom."""
    with translated(), open_engine(database.url).connect() as connection:
        if find_source(connection, StoreFormat.require_readable) is None or not definitions.is_made(connection):
            return
        yield _distribution(connection)
        scripts = script_records.list_newest(connection)
        columns = definitions.publications.c
        wanted = select(
            columns.publication_id,
            columns.publication.label("name"),
            columns.replicate_ddl,
            columns.latency_threshold_s,
            columns.expiration_threshold,
        )
        for row in location.distributor(connection).execute(wanted.order_by(columns.publication)).mappings().all():
            yield describe(PUBLICATION, [row["name"]], {name: row[name] for name in PUBLICATION.keys})
            for article in publication_records.list_articles(connection, row["publication_id"]):
                yield _article(connection, article, scripts.get(article.article_id))
            for text in schema_article_records.list_schema_articles(connection, row["publication_id"]):
                yield describe(SCHEMA_ARTICLE, [row["name"], text.name], {})
        yield from _subscriptions(connection)


def _distribution(connection: Connection) -> DeclaredObject:
    place, source = location.find_place(connection), find_own_source(connection)
    values: dict[str, Any] = {
        "distribution_db": None if place is None else place.url,
        "max_retention_hours": int(read_max_retention(connection).total_seconds() / 3600),
    }
    if source is not None:
        values["lake"] = source.lake
        values["log_store"] = source.log_store if source.log_store != f"{source.lake}/log" else None
    return describe(DISTRIBUTION, (), values)


def _article(connection: Connection, article: Article, script: script_records.CustomScript | None) -> DeclaredObject:
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
    if script is not None:
        is_sql = script.text is not None
        values |= {"script": script.text, "script_name" if is_sql else "script_python": script.name}
    implied = {"columns": columns, "before_images": article.before_images}
    names = [article.publication, spell_table(*name)]
    # What the log carries of the table anyway decides where the file says nothing.
    return describe(ARTICLE, names, values, implied=implied, tolerated=["before_images"])


def _subscriptions(connection: Connection) -> Iterator[DeclaredObject]:
    columns = definitions.agents.c
    query = (
        select(
            definitions.publications.c.publication,
            columns.subscriber,
            columns.constraints,
            columns.forwards,
            columns.settings,
            func.min(definitions.subscriptions.c.sync_type).label("sync_type"),
        )
        .select_from(definitions.agents.join(definitions.publications).outerjoin(definitions.subscriptions))
        .where(columns.joins.is_(None))
        .group_by(definitions.publications.c.publication, columns.id)
    )
    for row in location.distributor(connection).execute(query):
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
    retention = places.pop("max_retention_hours", None)
    database.replication.add_publication(**given, **places)
    if retention is not None:
        database.replication.change_distribution(max_retention_hours=retention)
    if thresholds:
        database.replication.change_publication(publication=name, **thresholds)


def _change_publication(database: Database, change: DeclaredChange) -> None:
    # 0 is the default.
    given = {name: value or 0 for name, value in change.arguments().items()}
    database.replication.change_publication(publication=change.wanted.names[0], **given)


def _change_distribution(database: Database, change: DeclaredChange) -> None:
    given = change.arguments()
    if "distribution_db" in given:
        database.replication.move_distribution(str(given["distribution_db"]))
    if "max_retention_hours" in given:
        database.replication.change_distribution(max_retention_hours=given["max_retention_hours"])


def _add_article(database: Database, article: DeclaredObject, _wanted: State) -> None:
    given = article.arguments()
    script = _take_script(given)
    database.replication.add_article(**given)
    if script is not None:
        database.replication.register_custom_scripting(*article.names, **script)


def _take_script(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the script among the options of an article, which are without it then."""
    sql, name, python = (given.pop(option, None) for option in _SCRIPT)
    if sql is not None:
        return {"sql": sql, "name": name, "python": python}
    return {"python": python} if python is not None else None


_SCRIPT = tuple(one.name for one in fields(ArticleScript))


def _change_article(database: Database, change: DeclaredChange) -> None:
    publication, table = change.wanted.names
    given = change.arguments()
    if given.keys() & set(_SCRIPT):
        script = _take_script(change.wanted.arguments())
        if script is not None:
            database.replication.register_custom_scripting(publication, table, **script)
        else:
            database.replication.unregister_custom_scripting(publication, table)
        given = {name: value for name, value in given.items() if name not in _SCRIPT}
        if not given:
            return
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


def _add_schema_article(database: Database, article: DeclaredObject, wanted: State) -> None:
    """Publish the text of an object, after that of others of the file that it uses."""
    publication, name = article.names
    others = [one.names[1] for one in list_of(wanted, SCHEMA_ARTICLE) if one.names[0] == publication]
    refused = _publish_text(database, publication, name)
    while refused is not None:
        published = [other for other in others if other != name and _publish_text(database, publication, other) is None]
        others = [other for other in others if other not in published]
        if not published:
            raise refused
        refused = _publish_text(database, publication, name)


def _publish_text(database: Database, publication: str, name: str) -> SchemaArticleUsesUnpublished | None:
    """Publish an object's text; return why that is refused until others are published. Raises `ObjectNotFound`."""
    try:
        if not database.replication.add_schema_article(publication, name):
            raise ObjectNotFound("view, function or procedure", name)
    except SchemaArticleUsesUnpublished as error:
        return error
    return None


EFFECTS = {
    DISTRIBUTION.name: Effects(
        # The first publication creates it.
        add=nothing,
        change=_change_distribution,
        drop=refuse,
    ),
    PUBLICATION.name: Effects(
        add=_add_publication,
        change=_change_publication,
        drop=lambda database, publication: database.replication.drop_publication(publication.names[0]),
    ),
    ARTICLE.name: Effects(
        add=_add_article,
        change=_change_article,
        drop=lambda database, article: database.replication.drop_article(*article.names),
    ),
    SCHEMA_ARTICLE.name: Effects(
        add=_add_schema_article,
        change=refuse,
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
