"""SQLite: connections, catalogue, quoting, values, the change clock and errors."""
