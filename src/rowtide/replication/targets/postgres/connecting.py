"""Connections to a PostgreSQL subscriber."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
from psycopg import sql

from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.errors import RightMissing, translated
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.subscribing import ReplicationRoleRefused
from rowtide.replication.subscription_settings import Constraints

_OWN_SETTINGS = {"plan_cache_mode": "force_generic_plan"}
"""Each call is one of many like it: a plan for its values alone would be made and thrown away every time."""


def settings_of(own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings that `connect` gives a session, with its own values of some."""
    return {**PINNED_SETTINGS, **_OWN_SETTINGS, **own}


def connect(
    url: str,
    *,
    application_name: str,
    constraints: Constraints | None = None,
    settings: Mapping[str, str] = PINNED_SETTINGS,
) -> psycopg.Connection:
    """Connect to a subscriber with the settings that fix the text form of values.

    In autocommit mode. Raises `ConnectionFailed`, `ReplicationRoleRefused`.
    """
    connection = open_url(url, application_name=application_name, settings={**settings, **_OWN_SETTINGS})
    if constraints is Constraints.NOT_FOR_REPLICATION:
        _replicate(connection)
    return connection


def connect_agent(subscription: Subscription, agent: str) -> psycopg.Connection:
    """Connect to a subscription's subscriber as its `distribution` or `snapshot` agent. Raises as `connect`."""
    return connect(
        subscription.subscriber,
        application_name=f"rowtide {agent} on {describe_holder()}",
        constraints=subscription.constraints,
    )


@contextmanager
def closed_on_error(connection: psycopg.Connection) -> Iterator[None]:
    """Close a connection if what is made of it cannot be."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _replicate(connection: psycopg.Connection) -> None:
    """Set the session's role to replica: foreign keys are not checked, and only triggers enabled for replicas fire."""
    try:
        with translated():
            connection.execute(sql.SQL("set session_replication_role = replica"))
    except RightMissing as error:
        user = connection.info.user
        connection.close()
        raise ReplicationRoleRefused(user, quote(user)) from error
