"""Register the script that runs at subscribers after schema changes of an article.

(SQL Server: sp_register_custom_scripting, sp_unregister_custom_scripting.)
"""

from __future__ import annotations

from sqlalchemy import Engine

from rowtide.core.lsn import CommitLsn, Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.control import mark_log
from rowtide.log.store.ownership import open_own_manifest
from rowtide.replication.distributor import custom_scripts, publication_records
from rowtide.replication.distributor.custom_scripts import CustomScript
from rowtide.replication.publisher import read_source


def register_script(
    engine: Engine,
    database: str,
    publication: str,
    table: str,
    script: CustomScript | None,
    from_lsn: CommitLsn | None = None,
) -> Position:
    """Register an article's script, or that it has none any more, from an LSN or from now on; return from where.

    Raises `DatabaseNotPublished`, `PublicationUnknown`, `ArticleUnknown`.
    """
    with translated(), engine.begin() as connection:
        source = read_source(connection, database)
        article = publication_records.get_article(connection, publication, table)
        if from_lsn is not None:
            start = Position(from_lsn.value)
        else:
            start = Position.of(open_own_manifest(source).state.epoch, mark_log(connection))
        custom_scripts.register(connection, article.article_id, script, start)
    return start
