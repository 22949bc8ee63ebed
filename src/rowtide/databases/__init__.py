"""How a database is spoken to; knows no feature."""
