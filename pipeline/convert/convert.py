"""The function `hr.convert`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal

from headrace.ops import InputError
from headrace.pipeline.data import check_kind, check_switches
from headrace.pipeline.storage.dataset.dataset import Dataset
from headrace.pipeline.storage.dataset.open_dataset import open_dataset
from headrace.pipeline.storage.terminal import show_text


def convert(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    unknown_ids: Literal["refuse", "drop", "create"] | None = None,
    duplicate_ids: Literal["refuse", "drop"] | None = None,
    duplicate_edges: Literal["keep", "drop", "sum"] | None = None,
    loops: Literal["keep", "drop", "add"] | None = None,
    undirected: bool | None = None,
    reverse: bool | None = None,
    null_times: Literal["refuse", "earliest", "drop"] | None = None,
    held_out: Literal["keep", "drop"] | None = None,
    time_unit: str | None = None,
    memory: int | str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Dataset:
    """Make a data set on disk of files, or of an object of PyG or DGL.

    Files are a TOML file that describes tables in CSV, Parquet or ``.npy`` (its fields:
    `headrace.pipeline.convert.formats.described`), a folder of OGB, MAG240M, GraphBolt (``metadata.yaml``, also of its
    folder ``preprocessed``) or DGL (``meta.yaml``), the JSON file of GraphStorm's construction or of a graph that
    ``dgl.distributed`` has cut, an ``.npz`` file, or a folder of ``.npy`` files. They
    are read in pieces, at any size; a conversion that was killed goes on behind its last finished pass; nothing
    is unpickled, and files outside the folder are not read. ``headrace convert`` does the same; it alone takes
    tables without a description (``--edges``) and has a dry run (``--dry-run``).

    Of an object the graph is that of `Graph.from_pyg` or `Graph.from_dgl`, with its edge attributes and times. Features
    are all arrays with a row for each node or edge, of all types. Masks of nodes, ``train_mask``, become items,
    ``data.items["train"]``, and those of several splits, [num_nodes, k], ``data.items["train_0"]`` and further;
    ``edge_label_index`` and ``edge_label`` of PyG become the items "edge_label".

    Parameters
    ----------
    source
        A path, a torch_geometric ``Data`` or ``HeteroData``, or a ``dgl.DGLGraph``.
    folder
        The data set to make; it appears when it is complete.
    unknown_ids, duplicate_ids, duplicate_edges, loops, undirected, reverse, null_times, held_out, time_unit
        Of files: policies for odd rows, in place of the fields of ``[options]`` in TOML, which
        `headrace.pipeline.convert.description.Options` documents. With None the source decides, and then the defaults.
    memory
        Of files: the most memory of the process, in bytes or as a text; default "4GB".
    overwrite
        Replace a data set at `folder`, with the parts inside it; anything else there stays, and is an error with its
        name.
    progress
        Show a bar of bytes written; of files a bar for each pass, and then the report of ``headrace convert``, on
        stderr. Its counts are in ``data.notes["counts"]``, too.

    Returns
    -------
    Dataset
        The data set, open.

    Raises
    ------
    InputError
        If `source` is none of these, `folder` exists and may not be replaced, or a file or row is malformed, with its
        place.
        As `Graph.from_pyg` and `Graph.from_dgl`.
    OSError
        If the disk is full, or `folder` cannot be written.

    Warns
    -----
    UserWarning
        Which attributes are left out, because they are not arrays with a row for each node or edge. Of files: nodes are
        numbered by their rows though a column seems to have their ids, or half of the rows of a table of edges or more
        are left out.
    """
    # The wing of an optional extra, which few programs use.
    from headrace.pipeline.convert.convert_tables import convert_tables
    from headrace.pipeline.convert.formats.source import read_source
    from headrace.pipeline.convert.objects import convert_object

    check_switches("convert", overwrite=overwrite, progress=progress)
    check_kind(folder, (str, os.PathLike), "convert: expected folder to be a path", "name it", InputError)
    given = {
        "unknown_ids": unknown_ids,
        "duplicate_ids": duplicate_ids,
        "duplicate_edges": duplicate_edges,
        "loops": loops,
        "undirected": undirected,
        "reverse": reverse,
        "null_times": null_times,
        "held_out": held_out,
        "time_unit": time_unit,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if isinstance(source, str | os.PathLike):
        limit, description = "4GB" if memory is None else memory, read_source(source)
        description = replace(description, options=replace(description.options, **changes))
        report = convert_tables(description, folder, memory=limit, overwrite=overwrite, progress=progress)
        if progress:
            show_text(str(report))
        return open_dataset(folder)
    of_files = changes if memory is None else {**changes, "memory": memory}
    for name, value in of_files.items():
        raise InputError(f"convert: expected {name}= with files, got {value!r} with an object in memory; leave it out")
    return convert_object(source, folder, overwrite=overwrite, progress=progress)
