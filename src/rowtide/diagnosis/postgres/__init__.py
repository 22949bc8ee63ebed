"""The diagnosis of a PostgreSQL database: facts, and checks of them."""
