"""Named consumers: consecutive windows, and what cleanup keeps for them."""
