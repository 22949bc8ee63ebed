"""Copy a lake and its log store to another place, and move them there."""

from rowtide.relocation.copying import Copied, CopyProgress, copy_lake, plan_copy
from rowtide.relocation.places import LakePlace

__all__ = ["Copied", "CopyProgress", "LakePlace", "copy_lake", "plan_copy"]
