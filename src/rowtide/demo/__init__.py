"""`rowtide demo`: capture on an embedded PostgreSQL with a real workload, verified while it runs."""
