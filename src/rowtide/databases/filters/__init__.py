"""The lexical part of filters, which replication and merge share; each has its own grammar."""
