"""Types of values, named as PostgreSQL names them, in one module per family: `registry.FAMILIES` lists them.

Columns of every database are published with these types. A type says how its values are stored in a lake and in a
SQLite file, compared in row filters, and ordered by resolvers. A type that no family has is stored as the server's
text.
"""
