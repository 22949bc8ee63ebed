"""Adopt a database that was moved permanently: restored, promoted or upgraded."""
