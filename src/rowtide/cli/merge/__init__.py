"""The commands of `rowtide merge`."""
