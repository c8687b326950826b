"""Ranks in the threads of one process, for tests of programs that run on several ranks.

>>> import headrace as hr
>>> from headrace.testing import LocalGroup
>>> first, second = LocalGroup(2).comms
"""

from headrace.pipeline.distributed.local_comm import LocalGroup

__all__ = ["LocalGroup"]
