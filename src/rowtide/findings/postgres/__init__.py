"""What a check knows of a PostgreSQL database, and what it means for capture and tracking."""
