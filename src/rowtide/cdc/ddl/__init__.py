"""DDL on captured tables."""
