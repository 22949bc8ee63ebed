"""A PostgreSQL subscriber's rows compared with the publisher's, repaired, and settled."""
