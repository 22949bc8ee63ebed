"""Access to databases: connections, catalogues, SQL text and errors. Knows no feature."""
