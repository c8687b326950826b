"""All mutants."""

from __future__ import annotations

from mutants.caches import CACHES
from mutants.cuda import CUDA
from mutants.data import DATA
from mutants.disk import DISK
from mutants.kernels import KERNELS
from mutants.laws import LAWS
from mutants.order import ORDER
from mutants.ranks import RANKS
from mutants.scores import SCORES
from mutants.tiers import TIERS

MUTANTS = (*ORDER, *DATA, *RANKS, *LAWS, *KERNELS, *CACHES, *TIERS, *SCORES, *DISK, *CUDA)
