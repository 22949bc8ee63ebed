"""A batch divided among several connections to a PostgreSQL subscriber, and committed as one."""
