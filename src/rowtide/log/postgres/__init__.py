"""PostgreSQL's log: the replication stream and its set-up (I/O), and the pgoutput decoder (pure)."""
