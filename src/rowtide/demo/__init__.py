"""`rowtide demo`: the main job on an embedded PostgreSQL with a real workload, proving itself while it runs."""
