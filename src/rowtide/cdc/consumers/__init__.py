"""Named consumers: windows that chain, and what cleanup keeps for them."""
