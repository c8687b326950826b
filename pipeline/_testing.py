"""For tests of your own: checks of stages and of layers, and ranks in the threads of one process.

>>> import headrace as hr
>>> from headrace.testing import LocalGroup
>>> first, second = LocalGroup(2).comms
"""

from headrace.pipeline.distributed.local_comm import LocalGroup
from headrace.pipeline.models.check_layer import check_layer
from headrace.pipeline.run.check_stage import check_stage

__all__ = ["LocalGroup", "check_layer", "check_stage"]
