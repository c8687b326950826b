"""The function `hr.convert`."""

from __future__ import annotations

import os
from typing import Any

from headrace.ops import InputError
from headrace.pipeline.convert.objects import convert_object
from headrace.pipeline.data import check_kind, check_switches
from headrace.pipeline.storage.dataset.open_dataset import Dataset


def convert(source: Any, folder: str | os.PathLike[str], *, overwrite: bool = False, progress: bool = True) -> Dataset:
    """Make a data set on disk of an object of PyG or DGL.

    The graph is that of `Graph.from_pyg` or `Graph.from_dgl`, with its edge attributes and times. Features are all
    arrays with a row for each node or edge, of all types. Masks of nodes, ``train_mask``, become items,
    ``data.items["train"]``; ``edge_label_index`` and ``edge_label`` of PyG become the items "edge_label".

    Parameters
    ----------
    source
        A torch_geometric ``Data`` or ``HeteroData``, or a ``dgl.DGLGraph``.
    folder
        The data set to make; it appears when it is complete.
    overwrite
        Replace a data set at `folder`; anything else there stays, and is an error.
    progress
        Show a bar of bytes written.

    Returns
    -------
    Dataset
        The data set, open.

    Raises
    ------
    InputError
        If `source` is none of these, or `folder` exists and may not be replaced.
    GraphError
        As `Graph.from_pyg` and `Graph.from_dgl`.
    OSError
        If the disk is full, or `folder` cannot be written.

    Warns
    -----
    UserWarning
        Which attributes are left out, because they are not arrays with a row for each node or edge.
    """
    check_switches("convert", overwrite=overwrite, progress=progress)
    check_kind(folder, (str, os.PathLike), "convert: expected folder to be a path", "name it", InputError)
    return convert_object(source, folder, overwrite=overwrite, progress=progress)
