"""How a log record becomes rows of a change table, as Spark SQL text."""
