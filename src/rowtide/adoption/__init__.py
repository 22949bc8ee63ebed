"""Adopt a database that was moved permanently: restored, promoted or upgraded."""

from rowtide.adoption.adopting import adopt, find_adoption, rehearse_adoption
from rowtide.adoption.found import Adoption

__all__ = ["Adoption", "adopt", "find_adoption", "rehearse_adoption"]
