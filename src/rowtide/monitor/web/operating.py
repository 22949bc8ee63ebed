"""What operators may do and see: actions and values of rows, through connections of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from rowtide.actions.entries import ActionKind
from rowtide.core.values import frozen
from rowtide.monitor.errors import ActionsOpen, OperatorUrlMissing, SubscriberUnclear
from rowtide.monitor.labels import without_users
from rowtide.monitor.web.access import Access, Role, Viewer

HIDDEN_VALUE = "•••"


@frozen(kw_only=True)
class Operating:
    """Whether operators act and see values of rows here, and through which URLs: never through the monitor's own."""

    urls: Mapping[str, str] = field(default_factory=dict)
    """By the names of databases: `operator_url` of the configuration file."""
    own_urls: Mapping[str, str] = field(default_factory=dict)
    """By the names of databases: the monitor's own, through which the audit is read where operators have none."""
    audit_days: Mapping[str, int] = field(default_factory=dict)
    """By the names of databases: how long the audit keeps entries, where that is not the default."""
    allows_actions: bool = False
    shows_values: bool = False

    def may_act(self, viewer: Viewer | None) -> bool:
        """Return whether a viewer may act."""
        return self.allows_actions and _is_operator(viewer)

    def sees_values(self, viewer: Viewer | None) -> bool:
        """Return whether a viewer sees values of rows, where they can be read at all; else `HIDDEN_VALUE`."""
        return self.shows_values and _is_operator(viewer)

    def find_reading_url(self, name: str) -> str | None:
        """Return the URL through which the audit of a database is read."""
        return self.urls.get(name, self.own_urls.get(name))

    def get_url(self, name: str) -> str:
        """Return the URL through which operators act on a database. Raises `OperatorUrlMissing`."""
        if name not in self.urls:
            raise OperatorUrlMissing(name)
        return self.urls[name]


NOBODY_OPERATES = Operating()


def require_asked(access: Access, operating: Operating) -> None:
    """Require that a monitor that allows actions asks everybody who they are. Raises `ActionsOpen`."""
    if not operating.allows_actions:
        return
    if not access.asks_who:
        raise ActionsOpen("it asks nobody for a token, and any local user may open its port")
    if not (access.operators or access.read_operators()):
        raise ActionsOpen("nobody is an operator")


def find_subscriber(url: str, kind: ActionKind, publication: str, shown: str) -> str:
    """Return a subscriber's URL by the name that pages have for it. Raises `SubscriberUnclear`."""
    urls = dict.fromkeys(_list_subscribers(url, kind, publication))
    found = [one for one in urls if shown in (one, without_users(one))]
    if len(found) != 1:
        raise SubscriberUnclear(shown, publication, len(found))
    return found[0]


def _list_subscribers(url: str, kind: ActionKind, publication: str) -> Iterable[str]:
    if kind in (ActionKind.VALIDATE_MERGE, ActionKind.REINITIALIZE_MERGE):
        from rowtide.merge.api import MergeReplication

        return (one.subscriber for one in MergeReplication(url).status(publication) if one.subscriber is not None)
    from rowtide.replication.api import TransactionalReplication

    return (one.subscriber for one in TransactionalReplication(url).list_subscriptions(publication))


def _is_operator(viewer: Viewer | None) -> bool:
    return viewer is not None and viewer.role is Role.OPERATOR
