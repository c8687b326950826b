"""Edge lists of random multigraphs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps


@st.composite
def edge_lists(draw):
    """Random multigraphs with self-loops, hubs and isolated nodes; edges in any order."""
    num_nodes = draw(st.integers(1, 12))
    num_edges = draw(st.integers(0, 40))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    ids = nps.arrays(dtype, (2, num_edges), elements=st.integers(0, num_nodes - 1))
    src, dst = draw(ids)
    if draw(st.booleans()):
        dst = np.sort(dst)
    return src, dst, num_nodes
