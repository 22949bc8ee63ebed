"""Going on with a database that was moved for good: restored, promoted, upgraded."""

from rowtide.adoption.adopting import adopt, find_adoption, plan_adoption
from rowtide.adoption.found import Adoption

__all__ = ["Adoption", "adopt", "find_adoption", "plan_adoption"]
