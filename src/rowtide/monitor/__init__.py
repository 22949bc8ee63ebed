"""The monitor: polls databases, keeps a day of samples, and serves metrics for Prometheus.

A poll asks what `health` and `status` ask, together in one statement, and is judged by the same checks. Its views
(`rowtide.monitor.views`) are pure; metrics and pages are made of them.
"""
