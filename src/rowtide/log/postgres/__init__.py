"""PostgreSQL's log: the replication stream (I/O) and pgoutput (pure)."""
