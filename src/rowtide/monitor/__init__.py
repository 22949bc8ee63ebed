"""The monitor: polls databases, keeps a day of samples, and serves metrics for Prometheus.

A poll runs the queries of `health` and `status`, combined in one statement, and evaluates them by the same checks. Its
views (`rowtide.monitor.views`) are pure; metrics and pages are made of them.
"""
