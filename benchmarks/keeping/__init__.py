"""Current tables that keep up: from a schema to them, and how far behind they are."""

from benchmarks.keeping.workloads import KEEPING

__all__ = ["KEEPING"]
