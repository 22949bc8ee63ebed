"""What merge replication costs writers, and how fast nodes exchange changes."""

from __future__ import annotations

from benchmarks.merge.workloads import MERGE

__all__ = ["MERGE"]
