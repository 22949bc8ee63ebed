"""The merged tables of a PostgreSQL node: described, created, altered and tracked by triggers."""
