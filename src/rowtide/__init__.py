"""rowtide: SQL Server's change-data family for PostgreSQL, MariaDB and SQLite."""

from rowtide.handle import Database, connect, register

__all__ = ["Database", "connect", "register"]
