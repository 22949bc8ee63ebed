"""PostgreSQL: connect, catalogue, quoting, values, error mapping."""
