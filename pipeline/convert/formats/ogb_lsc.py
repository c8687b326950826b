"""MAG240M as it is downloaded, in ``processed/``: ``paper/node_feat.npy``, ``author___writes___paper/edge_index.npy``.

Files of a node type are in a folder of its name, those of an edge type in ``source___relation___destination``.
Numbers of nodes are those of the arrays of a type, or the largest id in edges: ``meta.pt``, a pickle, is not read.
"""

from __future__ import annotations

from pathlib import Path

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, Items, NodeTable
from headrace.pipeline.convert.formats.ogb import SPLITS
from headrace.pipeline.convert.formats.source_files import array_table, inside, refuse_pickle

#: The nodes that have labels and splits.
_PAPER = "paper"

_ADVICE = (
    "write its ids: for name, ids in torch.load(file).items(): numpy.save(f'split/{name}.npy', ids), of train, valid, "
    "test"
)


def read_mag240m(folder: Path) -> Description:
    """Return the description of MAG240M; splits are ``split/{train,valid,test}.npy``, which are papers.

    Raises
    ------
    InputError
        If a file is missing or malformed.
    """
    nodes, edges = [], []
    for place in sorted(one for one in (folder / "processed").iterdir() if one.is_dir()):
        files = {one.stem: inside(folder, str(one.relative_to(folder))) for one in sorted(place.glob("*.npy"))}
        parts = place.name.split("___")
        if len(parts) == 3:
            if "edge_index" not in files:
                raise InputError(f"convert: expected edge_index.npy in {place}, got {sorted(files)}")
            index = files.pop("edge_index")
            table = array_table({"src": (index, 0), "dst": (index, 1), **files})
            edges.append(EdgeTable(table, (parts[0], parts[1], parts[2]), features={one: one for one in files}))
        elif files:
            table = array_table(dict(files))
            features: dict[str, Columns] = {
                {"node_feat": "x"}.get(name, name): name for name in files if name not in ("node_label", "node_year")
            }
            labels = {"y": "node_label"} if "node_label" in files else {}
            time = "node_year" if "node_year" in files else None
            nodes.append(NodeTable(place.name, table, features=features, labels=labels, time=time))
    items = []
    if (folder / "split_dict.pt").exists() and not any((folder / "split").glob("*.npy")):
        refuse_pickle("split_dict.pt", _ADVICE)
    for theirs, ours in SPLITS.items():
        if (folder / "split" / f"{theirs}.npy").exists():
            items.append(Items(ours, array_table({"id": inside(folder, f"split/{theirs}.npy")}), "id", _PAPER))
    return Description(edges, nodes, items)
