"""The formats of targets' tables: a module of each, with its `FORMAT` and `open_table`."""
