"""The configuration file `rowtide.toml`: where it is, what it may say, and what it says."""
