"""Read-only questions about a source database and what rowtide made of it."""
