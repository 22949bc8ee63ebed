"""Change tables' rows: their columns and operations, and how log records become them."""
