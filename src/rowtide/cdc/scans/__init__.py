"""Scans of the log: what each found and how long it took, as SQL Server shows them."""
