"""Storage of immutable files, of the log store and of the lake's tables."""
