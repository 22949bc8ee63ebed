"""What is older than the retention, and how it goes."""
