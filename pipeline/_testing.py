"""For tests of your own: a check of stages, and ranks in the threads of one process.

>>> import headrace as hr
>>> from headrace.testing import LocalGroup
>>> first, second = LocalGroup(2).comms
"""

from headrace.pipeline.distributed.local_comm import LocalGroup
from headrace.pipeline.run.check_stage import check_stage

__all__ = ["LocalGroup", "check_stage"]
