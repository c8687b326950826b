"""The instruction sets that this machine has, the best one last."""

from __future__ import annotations

from headrace.ops import _native

SETS = [one for one in _native.InstructionSet if _native.has(one)]
