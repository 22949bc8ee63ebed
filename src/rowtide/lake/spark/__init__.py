"""Spark as the lake uses it: its settings, its jars, its JVM, and what executors need."""
