"""Products of 32 bits in kernels, and borders of their constants."""

from __future__ import annotations

from mutants.mutant import Mutant

_FAR = "tests/cuda_host/test_far_addresses.py::"
_BORDERS = "tests/cuda_host/test_borders.py::"
_ROWS = _BORDERS + "test_rows_around_the_constants"
_FITTING = _BORDERS + "test_rows_that_fit_to_the_last_one"


def _short(file: str, product: str, test: str, before: str = "", behind: str = "") -> Mutant:
    """Return a product of 32 bits between what stands before and behind it."""
    short = f"static_cast<std::int32_t>({product})"
    return Mutant(f"cuda/kernels/{file}", before + product + behind, before + short + behind, _FAR + test)


FAR = (
    _short("spmm.cu", "rows.other(edge) * width", "test_sums", "value = x[", " + column]"),
    _short("spmm.cu", "position * heads", "test_sums", "weights[", "]; }"),
    _short("spmm.cu", "rows.other(edge) * width", "test_extremes_there_and_back", "factor * x[", " + column]"),
    _short("spmm.cu", "rows.other(edge) * width", "test_extremes_there_and_back", "from = ", " + column;"),
    _short("scatter.cu", "static_cast<std::int64_t>(id) * width", "test_rows_that_are_added", "out + ", " + column;"),
    _short("fetch_rows.cu", "slot * kWarp", "test_lines_of_a_graph_and_its_cache", "cache[", " + lane];"),
    _short("fetch_rows.cu", "fill * kWarp", "test_lines_of_a_graph_and_its_cache", "cache[", " + lane] ="),
    _short("fetch_rows.cu", "lines[k] * kWarp", "test_lines_of_a_graph_and_its_cache", "position = ", " - offset"),
    _short("cache.cu", "set * num_ways", "test_slots_of_a_cache", "return ", " + (set"),
    _short("sddmm.cu", "rows.row_of(edge) * width", "test_dot_products", "dot(a + ", " + at"),
    _short("sddmm.cu", "rows.other(edge) * width", "test_dot_products", "b + ", " + at"),
    _short("sddmm.cu", "rows.position(edge) * heads", "test_dot_products", "out[", " + i % heads]"),
    _short("sddmm.cu", "rows.row_of(edge) * width", "test_dot_products", "left = ", " + at"),
    _short("sddmm.cu", "rows.other(edge) * width", "test_dot_products", "right = ", " + at"),
    _short("sddmm.cu", "position * heads", "test_dot_products", "out[", " + i % heads] = sum"),
    _short("attention.cu", "edge.other * width", "test_attention", "segment.rows[group.rank] = ", ";"),
    _short("attention.cu", "edge.other * heads", "test_attention", "source[", " + of.first"),
    _short("attention.cuh", "position * scores.heads", "test_attention", "scores.edge[", " + head]"),
    _short("attention_backward.cu", "edge.other * width", "test_attention", "segment.rows[group.rank] = ", ";"),
    _short("attention_backward.cu", "(to_sources ? of.row : edge.other) * heads", "test_attention", "source + ", ";"),
    _short("attention_backward.cu", "edge.position * heads", "test_attention", "by_edge[", " + of.first"),
    _short(
        "attention_backward.cu",
        "(to_sources ? edge.other : of.row) * kCentreParts * heads",
        "test_attention_back_to_sources",
        "centres + ",
        ";",
    ),
    Mutant(
        "cuda/kernels/group.cuh",
        "if (own < count && length(own) <= kLongRow)",
        "if (own < count && length(own) < kLongRow)",
        _ROWS,
    ),
    Mutant(
        "cuda/kernels/group.cuh",
        "if (length(i) <= kLongRow) continue;",
        "if (length(i) <= kLongRow + 1) continue;",
        _ROWS,
    ),
    Mutant("cuda/kernels/segments.cu", "if (i < num_rows) fitted", "if (i < num_rows - 1) fitted", _FITTING),
    Mutant("cuda/kernels/segments.cu", "for_each_item(num_rows + 1,", "for_each_item(num_rows,", _FITTING),
    Mutant("cuda/kernels/segments.cu", "fits = size <= room;", "fits = size < room;", _FITTING),
    Mutant(
        "cuda/kernels/ordered_sum.cuh",
        "(count + kSumBlock - 1) / kSumBlock",
        "(count + kSumBlock - 2) / kSumBlock",
        _ROWS,
    ),
    Mutant(
        "cuda/kernels/ordered_sum.cuh",
        "first + kSumBlock < count ? first",
        "first + kSumBlock < count - 1 ? first",
        _ROWS,
    ),
    Mutant(
        "cuda/kernels/cache.cu",
        "k < begin + kMostMissing && set_of[k] == set;",
        "k < begin + kMostMissing - 1 && set_of[k] == set;",
        _BORDERS + "test_ids_that_miss_in_one_set_up_to_the_last_one_that_counts",
    ),
    Mutant(
        "cuda/kernels/cache.cu",
        "k < begin[set] + kMostMissing;",
        "k < begin[set] + kMostMissing - 1;",
        _BORDERS + "test_ids_that_miss_in_one_set_up_to_the_last_one_that_counts",
    ),
    Mutant("cuda/kernels/edge_rows.cuh", "edge + kAtOnce <= last", "edge + kAtOnce <= last + 1", _ROWS),
)
