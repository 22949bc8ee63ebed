"""Change data capture: typed change tables in the lake, queryable by LSN."""
