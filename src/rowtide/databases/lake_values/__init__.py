"""Text values as Arrow arrays of lake types: what Spark's `try_cast` makes of them. Pure.

A text that does not fit the type becomes null. The result for a text does not depend on its neighbours.
"""
