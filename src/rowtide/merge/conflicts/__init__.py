"""Conflicts of a merge: contests and their resolvers, stored conflicts, and decisions of people about them."""
