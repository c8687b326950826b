"""Graphs to train on: a built-in generator, ``.npz`` files, and PyG's and OGB's data sets by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

WIDEST_DENSE_FEATURES = 2048
PROJECTED_FEATURES = 512


@dataclass(frozen=True)
class Dataset:
    """A graph whose nodes have features, a class, and a part: training, validation or test.

    Messages go from ``src[i]`` to ``dst[i]``. ``train``, ``val`` and ``test`` are node ids.
    """

    name: str
    src: Tensor
    dst: Tensor
    x: Tensor
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def num_classes(self) -> int:
        return int(self.y.max()) + 1

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.num_nodes:,} nodes, {self.src.numel():,} edges, {self.x.shape[1]:,} features, "
            f"{self.num_classes} classes; {self.train.numel():,} / {self.val.numel():,} / {self.test.numel():,} "
            "nodes to train / validate / test"
        )


def load(name: str) -> Dataset:
    """Return a data set: "sbm", the path of an ``.npz`` file, ``ogbn-...``, or a name that PyG knows, such as Cora."""
    if name == "sbm":
        return block_model()
    if name.endswith(".npz"):
        return from_npz(Path(name))
    if name.startswith("ogbn-"):
        return from_ogb(name)
    return from_pyg(name)


def block_model(
    num_nodes: int = 50_000,
    num_classes: int = 16,
    num_features: int = 64,
    mean_degree: float = 16,
    mixing: float = 0.5,
    noise: float = 4.0,
    seed: int = 0,
) -> Dataset:
    """Draw a degree-corrected stochastic block model (arXiv:1008.3926) with informative features.

    Nodes have a class and a propensity with a heavy tail. An edge's first end is drawn by propensity; its second end by
    propensity too, within the same class, or (with probability `mixing`) among all nodes. Features are
    the class's mean plus `noise` times a normal variate, so that one node's own features say little and its
    neighbourhood's together say much.
    """
    random = np.random.default_rng(seed)
    # Classes are consecutive ranges of nodes until the ids are shuffled: so a class is a slice of the cumulated sum.
    y = np.sort(random.integers(0, num_classes, num_nodes))
    propensity = np.minimum(random.pareto(1.8, num_nodes) + 1, num_nodes**0.5)
    cumulated = np.concatenate([[0], np.cumsum(propensity)])
    first_of_class = np.searchsorted(y, np.arange(num_classes + 1))

    num_pairs = int(num_nodes * mean_degree / 2)
    one = np.searchsorted(cumulated, random.random(num_pairs) * cumulated[-1], side="right") - 1
    anywhere = random.random(num_pairs) < mixing
    low = np.where(anywhere, 0, cumulated[first_of_class[y[one]]])
    high = np.where(anywhere, cumulated[-1], cumulated[first_of_class[y[one] + 1]])
    two = np.searchsorted(cumulated, low + random.random(num_pairs) * (high - low), side="right") - 1

    shuffled = random.permutation(num_nodes)
    one, two = shuffled[one], shuffled[two]
    labels = np.empty(num_nodes, dtype=np.int64)
    labels[shuffled] = y
    means = random.standard_normal((num_classes, num_features), dtype=np.float32)
    x = means[labels] + np.float32(noise) * random.standard_normal((num_nodes, num_features), dtype=np.float32)

    src, dst = undirected(torch.from_numpy(one), torch.from_numpy(two), num_nodes)
    parts = torch.from_numpy(random.permutation(num_nodes))
    train, val, test = parts.split([num_nodes // 5, num_nodes // 5, num_nodes - 2 * (num_nodes // 5)])
    return Dataset("sbm", src, dst, torch.from_numpy(x), torch.from_numpy(labels), train, val, test)


def undirected(src: Tensor, dst: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return every edge in both directions, without repeats and self-loops."""
    keys = torch.cat([src * num_nodes + dst, dst * num_nodes + src])[torch.cat([src != dst, src != dst])].unique()
    return keys // num_nodes, keys % num_nodes


def from_npz(path: Path) -> Dataset:
    """Read ``edge_index``, sparse features ``x_*``, ``y`` and the three masks from a NumPy archive."""
    with np.load(path) as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files if key != "meta"}
    masks = ("train_mask", "val_mask", "test_mask")
    missing = [
        key for key in ("edge_index", "x_indptr", "x_indices", "x_data", "x_shape", "y", *masks) if key not in arrays
    ]
    if missing:
        raise SystemExit(f"{path} has no {', '.join(missing)}: it is not a node classification data set")
    train, val, test = (arrays[mask].nonzero().squeeze(1) for mask in masks)
    src, dst = arrays["edge_index"]
    return Dataset(path.stem, src, dst, dense_features(arrays), arrays["y"], train, val, test)


def dense_features(arrays: dict[str, Tensor]) -> Tensor:
    """Return the bag-of-words features as a dense matrix whose rows have length one.

    Above `WIDEST_DENSE_FEATURES` columns a random projection to `PROJECTED_FEATURES` columns stands in for them: it
    keeps inner products of rows up to a few per cent (Johnson and Lindenstrauss), sees no label, and makes the
    matrix of coauthor_physics 71 MB instead of 1.16 GB.
    """
    num_rows, num_columns = arrays["x_shape"].tolist()
    column, value = arrays["x_indices"].long(), arrays["x_data"].float()
    if num_columns > WIDEST_DENSE_FEATURES:
        projection = torch.randn(num_columns, PROJECTED_FEATURES, generator=torch.Generator().manual_seed(0))
        # A sparse matrix times a dense one is a weighted sum of the dense one's rows.
        starts = arrays["x_indptr"][:-1]
        dense = F.embedding_bag(column, projection, starts, mode="sum", per_sample_weights=value)
    else:
        row = torch.repeat_interleave(torch.arange(num_rows), arrays["x_indptr"].diff())
        dense = torch.zeros(num_rows, num_columns).index_put_((row, column), value)
    return F.normalize(dense)


def from_ogb(name: str) -> Dataset:
    """Fetch a node property prediction data set of the Open Graph Benchmark."""
    from ogb.nodeproppred import NodePropPredDataset

    data = NodePropPredDataset(name, root="data")
    graph, labels = data[0]
    split = data.get_idx_split()
    num_nodes = int(graph["num_nodes"])
    one, two = torch.from_numpy(graph["edge_index"])
    src, dst = undirected(one, two, num_nodes)
    return Dataset(
        name,
        src,
        dst,
        torch.from_numpy(graph["node_feat"]).float(),
        torch.from_numpy(labels).long().squeeze(1),
        *(torch.from_numpy(split[part]) for part in ("train", "valid", "test")),
    )


def from_pyg(name: str) -> Dataset:
    """Fetch one of PyG's node classification data sets; those without masks are split 60/20/20 at random."""
    try:
        from torch_geometric import datasets
    except ImportError:
        raise SystemExit(f"--data {name}: not 'sbm' or a .npz file; other names need torch_geometric") from None
    families = {
        "Planetoid": ("Cora", "CiteSeer", "PubMed"),
        "Amazon": ("Computers", "Photo"),
        "Coauthor": ("CS", "Physics"),
    }
    family = next((family for family, names in families.items() if name in names), None)
    if family is not None:
        data = getattr(datasets, family)("data", name)[0]
    elif name in ("Flickr", "Reddit"):
        data = getattr(datasets, name)(f"data/{name}")[0]
    else:
        known = [name for names in families.values() for name in names]
        raise SystemExit(
            f"--data {name}: not 'sbm', a .npz file, ogbn-... or one of {', '.join(known)}, Flickr, Reddit"
        )
    if "train_mask" in data:
        parts = [data[mask].nonzero().squeeze(1) for mask in ("train_mask", "val_mask", "test_mask")]
    else:
        order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
        parts = list(order.tensor_split([int(0.6 * data.num_nodes), int(0.8 * data.num_nodes)]))
    return Dataset(name, data.edge_index[0], data.edge_index[1], data.x, data.y, *parts)
