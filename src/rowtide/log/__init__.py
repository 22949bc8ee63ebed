"""The transaction log and the log store: read once, kept as immutable segments under a manifest."""
