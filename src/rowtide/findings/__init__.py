"""What check and health find in a database: facts, read without changing anything, and what they mean."""
