"""SQLite: connections, catalogue, quoting, values, the change clock and what its errors mean."""
