"""All kernels and the types that they are compiled for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

_IDS = ("std::int32_t", "std::int64_t")
_VALUES = ("float", "double")
#: What rows are copied by.
WORDS = ("std::uint8_t", "std::uint16_t", "std::uint32_t", "std::uint64_t", "uint4")


@dataclass(frozen=True)
class Kernel:
    """A kernel.

    Attributes
    ----------
    name
        Its name in C++.
    file
        Where it is, in ``kernels/``.
    types
        Lists of template arguments.
    """

    name: str
    file: str
    types: tuple[tuple[str, ...], ...]

    def expression(self, types: tuple[str, ...]) -> str:
        """Return the name of an instance."""
        return f"headrace::{self.name}<{', '.join(types)}>" if types else f"headrace::{self.name}"


def _kernels(file: str, **names: tuple[tuple[str, ...], ...]) -> Iterator[Kernel]:
    """Yield kernels with all combinations of what their template arguments can be."""
    return (Kernel(name, file, tuple(product(*choices))) for name, choices in names.items())


_ALL = (
    *_kernels(
        "gather.cu",
        gather_rows=(_IDS, WORDS),
        gather_short_rows=(_IDS, WORDS),
        check_rows=(_IDS,),
        gather_tables=(WORDS,),
        check_tables=(),
        locate_rows=(_IDS, _IDS),
    ),
    *_kernels("cache.cu", find_ids=(_IDS,), begin_runs=(), expect_ids=(_IDS, _IDS), give_slots=(_IDS,)),
    *_kernels(
        "gather_cached.cu",
        gather_cached=(_IDS, WORDS),
        gather_short_cached=(_IDS, WORDS),
        fill_cache=(WORDS,),
    ),
    *_kernels("scatter.cu", scatter_add_rows=(_VALUES, _IDS)),
    *_kernels("owners.cu", hash_owners=()),
    *_kernels("random.cu", dropout_mask=(), labor_variates=()),
    *_kernels("fetch_rows.cu", count_lines=(), list_lines=(), copy_lines=(_IDS,), return_edges=(_IDS,)),
    *_kernels("segments.cu", find_segments=(), fit_rows=(), look_up=(_IDS, _IDS)),
    *_kernels("typed_hop.cu", find_typed_segments=(), join_picks=()),
    *_kernels("excluded.cu", find_gaps=(), pack_edges=(_IDS + _VALUES,), unpack_picks=()),
    *_kernels("find_edges.cu", place_pairs=(), measure_rows=(), match_edges=(_IDS, _IDS)),
    *_kernels("negatives.cu", check_negatives=(), draw_negatives=(_IDS,), count_below=()),
    *_kernels("trees.cu", plant_roots=(), key_sources=(_IDS,), read_elements=()),
    *_kernels("pick_uniform.cu", pick_all=(), pick_uniform=(("1", "32"),), pick_uniform_replacement=()),
    *_kernels("pick_labor.cu", pick_labor_exact=(_IDS,), pick_labor_poisson=(_IDS,)),
    *_kernels(
        "pick_weighted.cu",
        sum_rows=(_VALUES,),
        pick_positive=(_VALUES,),
        pick_weighted=(_VALUES,),
        move_picks=(),
        pick_weighted_replacement=(_VALUES,),
        pick_labor_weighted=(_IDS, _VALUES),
    ),
    *_kernels(
        "importance.cu",
        find_shares=(_VALUES,),
        solve_rows=(_IDS,),
        raise_sources=(_IDS,),
        spread_scales=(),
        count_kept=(_IDS,),
        keep_edges=(_IDS,),
    ),
    *_kernels("edge_rows.cu", check_edge_rows=(_IDS,)),
    *_kernels("spmm.cu", spmm=(_VALUES, _IDS), spmm_extreme=(_VALUES, _IDS), spmm_winners=(_VALUES, _IDS)),
    *_kernels("sddmm.cu", sddmm=(_VALUES, _IDS), sddmm_won=(_VALUES, _IDS)),
    *_kernels("attention.cu", attend=(_VALUES, _IDS)),
    *_kernels("attention_backward.cu", attention_centres=(_VALUES,), attend_backward=(_VALUES, _IDS)),
    *_kernels(
        "compact.cu",
        begin_ids=(),
        find_slots=(_IDS,),
        find_sources=(_IDS, _IDS),
        mark_first=(),
        number_new=(_IDS,),
        renumber=(_IDS,),
        take_new=(),
    ),
)

KERNELS = {kernel.name: kernel for kernel in _ALL}


def instances_in(file: str) -> list[str]:
    """Return the names of all instances in a file."""
    return [kernel.expression(types) for kernel in _ALL if kernel.file == file for types in kernel.types]


#: Files that kernels are in.
FILES = tuple(dict.fromkeys(kernel.file for kernel in _ALL))
