"""headrace: composable datapipe dataloading for graph neural networks.

>>> import headrace as hr
>>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
>>> loader = hr.ItemSampler(3, batch_size=2).sample_neighbor(graph, fanouts=[2]).loader()
>>> [batch.n_id.tolist() for batch in loader]
[[0, 1, 2], [2, 1]]
"""

from typing import TYPE_CHECKING

from headrace.ops.names import names_of as _names_of
from headrace.pipeline.version import VERSION as _VERSION

__version__ = _VERSION

if TYPE_CHECKING:
    from headrace import ext as ext
    from headrace import lightning as lightning
    from headrace import nn as nn
    from headrace import pyg as pyg
    from headrace import sar as sar
    from headrace import scores as scores
    from headrace import testing as testing
    from headrace.pipeline.public import *  # noqa: F403
    from headrace.pipeline.public import __all__  # noqa: F401
else:
    # `import headrace` imports neither torch nor what the names stand for: `headrace --help` needs neither.
    _MODULES = ("ext", "lightning", "nn", "ops", "pyg", "sar", "scores", "testing")
    __getattr__, __dir__ = _names_of(
        __name__, "headrace.pipeline.public", {name: f"{__name__}.{name}" for name in _MODULES}
    )
