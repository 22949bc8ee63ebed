"""Commands that are actions: the audit of their database gets each, before it runs and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

_AUDITED = frozenset(
    {
        *("replication pause", "replication resume", "replication post-tracer-token", "replication validate"),
        *("replication reinitialize", "replication resolve"),
        *("cdc start-job", "cdc stop-job", "cdc reinitialize"),
        *("merge validate", "merge reinitialize", "merge resolve"),
        *("conflicts decide", "conflicts comment"),
    }
)
"""The values of `ActionKind`, which few commands import."""
_NOT_ARGUMENTS = frozenset({"db", "form", "wide", "yes", "dry_run", "hide_keys", "_hide_keys"})


def name_actor() -> str:
    """Return who runs this command, as far as the machine knows."""
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}"


@contextmanager
def auditing(context: click.Context) -> Iterator[None]:
    """Record the command of a context, if it is an action, and how it ends. Raises as `recording`."""
    named = f"{context.parent.info_name} {context.info_name}" if context.parent is not None else ""
    if named not in _AUDITED or context.params.get("dry_run") or context.params.get("url") is not None:
        # A device that has a gateway's --url does not reach the hub's database.
        yield
        return
    from rowtide.actions.entries import ActionKind, ActionRequest, Channel
    from rowtide.actions.performing import recording

    given = {name: value for name, value in context.params.items() if _is_argument(context, name)}
    request = ActionRequest.make(ActionKind(named), given, actor=name_actor(), channel=Channel.COMMAND_LINE)
    with recording(context.params["db"], request):
        yield


def _is_argument(context: click.Context, name: str) -> bool:
    is_default = context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT
    return name not in _NOT_ARGUMENTS and not is_default
