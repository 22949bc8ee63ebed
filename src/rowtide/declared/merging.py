"""Merge replication as it is declared, of the hub: publications, articles, join filters and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rowtide.databases.urls import parse_url
from rowtide.declared.kinds import MERGE_ARTICLE, MERGE_FILTER, MERGE_PUBLICATION, MERGE_SUBSCRIPTION
from rowtide.declared.planning import DeclaredChange, DeclaredObject, Effects, State, describe, nothing
from rowtide.declared.values import split_table
from rowtide.handle import Database
from rowtide.merge.articles import Article, Partition, Publication
from rowtide.merge.catalogue import list_articles, list_publications, read_nickname
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.partition_membership import list_explicit


def read(database: Database) -> Iterator[DeclaredObject]:
    """Yield the publications that this node is the hub of, and what they have."""
    with open_node(database.url) as hub:
        if not hub.tables.is_prepared():
            return
        own = read_nickname(hub.connection)
        for publication in list_publications(hub.connection):
            if publication.publisher == own:
                yield from _read_publication(hub, publication)


def _read_publication(hub: Node, publication: Publication) -> Iterator[DeclaredObject]:
    values = {
        "retention_days": publication.retention_days,
        "conflict_retention_days": publication.conflict_retention_days,
        "allow_partition_realignment": publication.realigns,
        "replicate_ddl": publication.replicates_ddl,
        "run_as": publication.run_as,
        "partitions": list_explicit(hub.connection, publication.pubid),
    }
    yield describe(MERGE_PUBLICATION, [publication.name], values)
    articles = list_articles(hub.connection, publication.pubid)
    tables = {article.name: article.qualified_name for article in articles}
    for article in articles:
        names = [publication.name, article.qualified_name]
        yield _article(names, article)
        for join in article.join_filters:
            options = {name: getattr(join, name) for name in MERGE_FILTER.keys}
            yield describe(MERGE_FILTER, [*names, tables[join.parent]], options)
    for subscription in list_subscriptions(hub.connection, publication.pubid):
        partition = subscription.partition or Partition()
        options = {
            "host_name": partition.host_name,
            "login": partition.suser_name,
            "subscriber_type": subscription.subscriber_type,
            "priority": subscription.priority,
        }
        yield describe(MERGE_SUBSCRIPTION, [publication.name, subscription.subscriber], options)


def _article(names: list[str], article: Article) -> DeclaredObject:
    columns = [column.name for column in article.columns]
    key = [column.name for column in article.key_columns]
    values = {name: getattr(article, name) for name in MERGE_ARTICLE.keys if hasattr(article, name)}
    values |= {
        "where": article.subset_filter,
        "upload_options": article.subscriber_upload_options,
        "columns": [name for name in columns if name not in key] if article.vertical_partition else None,
    }
    return describe(MERGE_ARTICLE, names, values, implied={"columns": columns}, always=key)


def _add_publication(database: Database, publication: DeclaredObject, _wanted: State) -> None:
    given = publication.arguments()
    partitions = given.pop("partitions", ())
    database.merge.add_publication(**given)
    for partition in partitions:
        database.merge.add_partition(publication.names[0], partition)


def _change_publication(database: Database, change: DeclaredChange) -> None:
    name, given = change.wanted.names[0], change.arguments()
    if "partitions" in given:
        wanted, present = given.pop("partitions"), change.present.arguments().get("partitions", ())
        for partition in wanted:
            if partition not in present:
                database.merge.add_partition(name, partition)
        for partition in present:
            if partition not in wanted:
                database.merge.drop_partition(name, partition)
    if given:
        database.merge.change_publication(name=name, **given)


def _change_filter(database: Database, change: DeclaredChange) -> None:
    publication, child, parent = change.wanted.names
    known = database.merge.list_articles(publication)
    parts = [(one.article, [one.source_object], [one.source_owner, one.source_object]) for one in known]
    name = next(name for name, *spelled in parts if list(split_table(parent)) in spelled or parent in spelled[0])
    condition = str(change.wanted.options["condition"])
    database.merge.change_article(publication=publication, article=child, joins={name: condition})


def _add_subscription(database: Database, subscription: DeclaredObject, _wanted: State) -> None:
    given = subscription.arguments()
    existing, absent_is_delete = given.pop("existing", None), given.pop("absent_is_delete", False)
    if existing is None or _is_new_file(subscription.names[-1]):
        database.merge.add_subscription(**given)
        return
    given.pop("snapshot", None)
    database.merge.subscribe_existing(**given, existing=existing, absent_is_delete=absent_is_delete)


def _is_new_file(url: str) -> bool:
    parsed = parse_url(url)
    return parsed.kind.is_file and not Path(parsed.database or "").exists()


def _change_subscription(database: Database, change: DeclaredChange) -> None:
    given = change.wanted.arguments()
    partition = {name: given[name] for name in MERGE_SUBSCRIPTION.changeable & given.keys()}
    publication, subscriber = change.wanted.names
    database.merge.change_subscription(publication=publication, subscriber=subscriber, **partition)


EFFECTS = {
    MERGE_PUBLICATION.name: Effects(
        add=_add_publication,
        change=_change_publication,
        drop=lambda database, publication: database.merge.drop_publication(publication.names[0]),
    ),
    MERGE_ARTICLE.name: Effects(
        add=lambda database, article, _wanted: database.merge.add_article(**article.arguments()),
        change=lambda database, change: database.merge.change_article(
            publication=change.wanted.names[0], article=change.wanted.names[1], **change.arguments()
        ),
        drop=lambda database, article: database.merge.drop_article(*article.names),
    ),
    MERGE_FILTER.name: Effects(
        add=lambda database, join, _wanted: database.merge.add_filter(**join.arguments()),
        change=_change_filter,
        # It goes with its article.
        drop=nothing,
    ),
    MERGE_SUBSCRIPTION.name: Effects(
        add=_add_subscription,
        change=_change_subscription,
        drop=lambda database, subscription: database.merge.drop_subscription(
            publication=subscription.names[0], subscriber=subscription.names[1]
        ),
    ),
}
