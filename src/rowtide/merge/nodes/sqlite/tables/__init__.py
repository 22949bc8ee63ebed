"""The merged tables of a SQLite node: described, created, altered and tracked by triggers."""
