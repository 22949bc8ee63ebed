"""What is compared, repaired and browsed, as commands and methods take it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Annotated

from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.replication.subscription_settings import PublicationName, SomeSubscriber

OnCompare = Callable[[str, str, int, int], None]
OneArticle = Annotated[str | None, Option(help="Of this article, by its name or table; default: all.")]
Checksum = Annotated[bool, Option("--checksum", help="Compare values too, not only row counts.")]
DeleteExtra = Annotated[bool, Option("--delete-extra", help="With --repair: delete rows that only the subscriber has.")]


@frozen
class CompareOptions:
    """Which articles and subscribers of a publication are compared; by default all."""

    publication: PublicationName
    _: KW_ONLY
    article: OneArticle = None
    subscriber: SomeSubscriber = None
    wait_s: Annotated[
        float,
        Option("--wait", help="Seconds to wait, while a process delivers, for what cannot be compared yet.", min=0),
    ] = 10
    on_compare: OnCompare = lambda _subscriber, _article, _number, _of: None
    """Called before an article is compared, with the subscriber, the article, its number from 1 and that of all."""


@frozen
class RowValidation(CompareOptions):
    """A comparison by numbers of rows, or by their values too (SQL Server: sp_publication_validation)."""

    checksum: Checksum = field(default=False, kw_only=True)


@frozen
class RowRepair(CompareOptions):
    """A comparison by rows, after which those that differ are repaired; a rehearsal rolls that back."""

    delete_extra: DeleteExtra = field(default=False, kw_only=True)
    is_rehearsal: bool = field(default=False, kw_only=True)


@frozen
class CommandRange:
    """Commands of the log store, both ends of a range included (SQL Server: sp_browsereplcmds)."""

    publication: Annotated[str | None, Option(help="Of this publication; default: all.")] = None
    _: KW_ONLY
    article: OneArticle = None
    from_lsn: Annotated[
        CommitLsn | None,
        Option(
            "--from",
            help="The first transaction's LSN; default: the first that is kept.",
            sql_server="@xact_seqno_start",
        ),
    ] = None
    to_lsn: Annotated[
        CommitLsn | None,
        Option(
            "--to", help="The last transaction's LSN; default: the last that was read.", sql_server="@xact_seqno_end"
        ),
    ] = None
