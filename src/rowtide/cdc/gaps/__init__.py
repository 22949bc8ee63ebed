"""Gaps of the log: what is captured of the difference that they made, and how capture continues behind them."""
