"""What runs at a PostgreSQL subscriber for a call: procedures, and statements for many calls at once."""
