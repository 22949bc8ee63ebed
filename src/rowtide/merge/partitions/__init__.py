"""Which rows a subscriber has: row filters, join filters, and the stored membership of rows in partitions."""
