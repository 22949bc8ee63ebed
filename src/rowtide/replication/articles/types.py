"""What an article publishes (SQL Server: @type of sp_addarticle)."""

from __future__ import annotations

from enum import StrEnum


class ArticleType(StrEnum):
    """A table's rows, or the text of another object."""

    TABLE = "table"
    """The rows of a table."""
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized-view"
    FUNCTION = "function"
    PROCEDURE = "procedure"
    PROCEDURE_EXECUTION = "procedure-execution"
    """Refused: the log has what a procedure did, not that it was called."""
