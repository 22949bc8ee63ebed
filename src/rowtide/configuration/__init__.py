"""The configuration file `rowtide.toml`: finding, describing and parsing it."""
