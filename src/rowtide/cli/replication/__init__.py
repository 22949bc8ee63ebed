"""The commands of `rowtide replication`."""
