"""The transaction log and the log store: the log is read once and kept as immutable segments under a manifest."""
