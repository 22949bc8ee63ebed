"""Type widening taken out of an instance's tables, beside capture."""
