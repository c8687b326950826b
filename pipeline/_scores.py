"""Scores of nodes: see `headrace.pipeline.scores`."""

from typing import TYPE_CHECKING

from headrace.pipeline.scores import *  # noqa: F403 - the same names
from headrace.pipeline.scores import __all__, __dir__, __doc__  # noqa: A004, F401 - what help() shows

if not TYPE_CHECKING:
    from headrace.pipeline.scores import __getattr__  # noqa: F401 - it refuses others
