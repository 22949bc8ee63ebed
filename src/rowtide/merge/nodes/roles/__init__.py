"""What a session asks of a node, by role: each part of it takes the roles that it needs."""
