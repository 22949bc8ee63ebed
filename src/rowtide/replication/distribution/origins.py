"""Changes that a publisher has received from others, by the marks in its log. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.log.origins import is_marked


def are_local(records: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which log records are the database's own changes: rowtide's delivery has not brought them."""
    origins = records["origin"]
    if origins.null_count == len(origins):
        return np.ones(len(origins), np.bool_)
    encoded = origins.combine_chunks().dictionary_encode()
    local = np.array([not is_marked(name) for name in encoded.dictionary.to_pylist()] + [True], np.bool_)
    places = encoded.indices.fill_null(len(local) - 1).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.bool_] = local[places]
    return found
