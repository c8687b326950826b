"""All mutants."""

from __future__ import annotations

from mutants.aggregate import AGGREGATE
from mutants.any_layer import ANY_LAYER
from mutants.caches import CACHES
from mutants.convert import CONVERT
from mutants.cuda import CUDA
from mutants.data import DATA
from mutants.decoded import DECODED
from mutants.disk import DISK
from mutants.exclusion import EXCLUSION
from mutants.far import FAR
from mutants.feature_caches import FEATURE_CACHES
from mutants.gpus import GPUS
from mutants.graph_fetch import GRAPH_FETCH
from mutants.hybrid import HYBRID
from mutants.inference import INFERENCE
from mutants.kernels import KERNELS
from mutants.laws import LAWS
from mutants.links import LINKS
from mutants.links_on_gpu import LINKS_ON_GPU
from mutants.misfits import MISFITS
from mutants.order import ORDER
from mutants.padding import PADDING
from mutants.parts import PARTS
from mutants.pyg import PYG
from mutants.ranks import RANKS
from mutants.row_watch import ROW_WATCH
from mutants.sar import SAR
from mutants.scores import SCORES
from mutants.tiers import TIERS
from mutants.typed import TYPED
from mutants.waits import WAITS
from mutants.written import WRITTEN

MUTANTS = (
    *ORDER,
    *DATA,
    *RANKS,
    *HYBRID,
    *PARTS,
    *SAR,
    *ANY_LAYER,
    *ROW_WATCH,
    *INFERENCE,
    *LAWS,
    *LINKS,
    *LINKS_ON_GPU,
    *EXCLUSION,
    *MISFITS,
    *KERNELS,
    *AGGREGATE,
    *CACHES,
    *FEATURE_CACHES,
    *TIERS,
    *CONVERT,
    *TYPED,
    *SCORES,
    *DISK,
    *DECODED,
    *CUDA,
    *FAR,
    *WAITS,
    *GPUS,
    *GRAPH_FETCH,
    *PADDING,
    *PYG,
    *WRITTEN,
)
