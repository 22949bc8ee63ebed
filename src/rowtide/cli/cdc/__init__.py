"""The commands of `rowtide cdc`."""
