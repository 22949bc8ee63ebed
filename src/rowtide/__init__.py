"""rowtide: SQL Server's change-data family for PostgreSQL, MariaDB and SQLite."""
