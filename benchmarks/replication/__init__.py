"""Replication beside PostgreSQL's own subscriptions."""

from benchmarks.replication.workloads import REPLICATION

__all__ = ["REPLICATION"]
