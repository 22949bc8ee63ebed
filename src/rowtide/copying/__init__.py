"""Tables copied in chunks by key range, each in its own transaction snapshot, while they change."""
