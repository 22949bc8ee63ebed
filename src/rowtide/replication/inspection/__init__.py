"""Comparison of subscribers with their publisher, and where a row is on its way. Changes no row."""
