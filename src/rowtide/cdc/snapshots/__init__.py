"""Snapshots of captured tables: their rows are copied into base tables of the lake while changes are captured."""
