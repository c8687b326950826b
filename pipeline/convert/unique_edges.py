"""Edges that are there twice: found while edges of one destination are together, and left out of everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.convert.edge_ends import EndFiles
from headrace.pipeline.convert.memory import rows_within
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.work_folder import Facts


def are_repeats(edges: np.ndarray, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which records have the ends of one with a smaller id of the same type.

    Parameters
    ----------
    edges
        Records with "dst", "src" and "id".
    starts
        The first edge id of each type, ascending.
    """
    of_type = np.searchsorted(starts, edges["id"], side="right")
    order = np.lexsort((edges["id"], of_type, edges["src"], edges["dst"]))
    same = np.ones(max(0, len(edges) - 1), bool)
    for column in (edges["dst"], edges["src"], of_type):
        same &= column[order[1:]] == column[order[:-1]]
    found = np.zeros(len(edges), bool)
    found[order[1:][same]] = True
    return found


def without(files: EndFiles, facts: Facts, dropped: NDArray[np.int64], room: int) -> Facts:
    """Write the ends of a table of edges again without some of them.

    Parameters
    ----------
    dropped: int64[num_dropped]
        Places among the edges that stayed so far, ascending.

    Returns
    -------
    Facts
        Those of the `unique_files`, in which `EndFiles.kept` leaves these rows out too.
    """
    made = unique_files(files)
    everything = facts["num_rows"] == facts["num_edges"]
    at_a_time, place = rows_within(room // 8, 64), 0
    with made.kept.writer() as kept, made.src.writer() as src, made.dst.writer() as dst:
        for start in range(0, facts["num_rows"], at_a_time):
            stop = min(start + at_a_time, facts["num_rows"])
            flags = np.ones(stop - start, bool) if everything else files.kept.rows(start, stop)
            count = int(flags.sum())
            first, last = np.searchsorted(dropped, [place, place + count])
            staying = np.ones(count, bool)
            staying[dropped[first:last] - place] = False
            for old, writer in ((files.src, src), (files.dst, dst)):
                writer.append(old.rows(place, place + count)[staying])
            flags[flags] = staying
            kept.append(flags)
            place += count
    return {**facts, "num_edges": facts["num_edges"] - len(dropped)}


def unique_files(files: EndFiles) -> EndFiles:
    """Return the files that `without` writes."""

    def other(array: RawArray) -> RawArray:
        return replace(array, path=array.path.with_name(f"{array.path.name}.unique"))

    return replace(files, src=other(files.src), dst=other(files.dst), kept=other(files.kept))
