"""Versions of a row: their lineages, how two of them compare, and how they are stored."""
