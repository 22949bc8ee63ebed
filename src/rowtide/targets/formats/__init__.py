"""The formats of targets' tables."""
