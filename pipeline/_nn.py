"""Layers on blocks: see `headrace.pipeline.models.nn`."""

from typing import TYPE_CHECKING

from headrace.pipeline.models.nn import *  # noqa: F403 - the same names
from headrace.pipeline.models.nn import __all__, __dir__, __doc__  # noqa: A004, F401 - what help() shows

if not TYPE_CHECKING:
    from headrace.pipeline.models.nn import __getattr__  # noqa: F401 - it refuses others
