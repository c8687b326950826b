"""All mutants."""

from __future__ import annotations

from mutants.data import DATA
from mutants.kernels import KERNELS
from mutants.laws import LAWS
from mutants.order import ORDER
from mutants.ranks import RANKS

MUTANTS = (*ORDER, *DATA, *RANKS, *LAWS, *KERNELS)
