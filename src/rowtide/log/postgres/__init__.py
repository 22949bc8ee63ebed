"""PostgreSQL's log: the replication stream and what surrounds it (I/O), and pgoutput (pure)."""
