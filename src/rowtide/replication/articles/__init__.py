"""What is published of a table: its columns, filters and call formats, and the schema changes that follow."""
