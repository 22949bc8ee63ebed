"""What is known of a PostgreSQL database, and what it means."""
