"""Training on the whole graph: see `headrace.pipeline.models.sar`."""

from typing import TYPE_CHECKING

from headrace.pipeline.models.sar import *  # noqa: F403 - the same names
from headrace.pipeline.models.sar import __all__, __dir__, __doc__  # noqa: A004, F401 - what help() shows

if not TYPE_CHECKING:
    from headrace.pipeline.models.sar import __getattr__  # noqa: F401 - it refuses others
