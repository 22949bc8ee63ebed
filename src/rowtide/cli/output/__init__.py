"""What commands print: rows, tables, events, progress and metrics."""
