"""Published changes as `rowtide`, a data source of Spark: streams with LSN offsets, and batches."""
