"""The words of filters, which replication and merge write alike; each has a grammar of its own over them."""
