"""What a PostgreSQL node stores about rows and generations, and the views that show it."""
