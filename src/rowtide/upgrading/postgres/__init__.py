"""What a PostgreSQL database and its places have stored."""
