"""What a conversion reads: which tables hold nodes, edges and items, and what to do with odd rows.

Each format of files is read into a `Description`, and `convert_tables` makes a data set of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.pipeline.convert.table import Table

#: Columns of a feature: the name of one, which gives rows of its own shape, or several numbers side by side, [n, k].
Columns = str | Sequence[str]

EdgeType = tuple[str, str, str]

#: The relation of an edge type whose table has relations in a column.
ANY = "*"

#: What to do about null as a time, for users of functions and of the shell.
NULL_TIMES = "pass null_times='earliest' (--null-times earliest) or 'drop' (--null-times drop)"

#: Other names of splits, in any case.
_SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def names_of_split(split: str) -> list[str]:
    """Return what train, val or test may be called, in lower case."""
    return [name for name, ours in _SPLITS.items() if ours == split]


def split_name(name: str) -> str:
    """Return what a split is called here: train, val or test, or the name itself if it is none of these."""
    return _SPLITS.get(name.lower(), name)


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of one type.

    Nodes are numbered as the rows of `table`. Without a table they are those that edges and items name: integer ids are
    node numbers, up to `num_nodes` or the largest one; texts, and integers with ``external=True``, are numbered in
    ascending order (texts by their bytes in UTF-8).

    Parameters
    ----------
    type
        The node type; "node" in a graph without types.
    table
        A row for each node; None if there is nothing but ids in edges.
    id
        The column of the users' own ids, integers or texts, each once; None if edges name nodes by their row.
    num_nodes
        How many nodes there are. With a table it must agree with its rows.
    external
        Without a table: whether integer ids are keys, which may have gaps, rather than node numbers.
    features
        By name, the columns: one column, or several of numbers side by side.
    labels
        By name, a column of labels, which becomes a feature; NaN and null in floating point mean no label.
    time
        A column of times, which becomes the attribute "time" of nodes.
    splits
        Names of items and how to find them: ``{"train": "is_train"}`` is a column of booleans or of 0 and 1, and
        ``"split"`` is one column with the name of the items of each node; null and "" are in none. Here and elsewhere
        "valid" and "validation" are "val".
    """

    type: str = "node"
    table: Table | None = None
    id: str | None = None
    num_nodes: int | None = None
    external: bool = False
    features: Mapping[str, Columns] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    time: str | None = None
    splits: Mapping[str, str] | str | None = None


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """The edges of one type, or some of them: edges of several tables of one type follow each other.

    Edges are numbered by their rows, without those that `Options` leave out. Attributes are kept with the graph, in the
    order in which samplers read them, and features beside it, in the order of edge ids.

    Parameters
    ----------
    type
        (source type, relation, destination type); None in a graph without types.
    table
        A row for each edge.
    src, dst
        The columns with the ids of the ends.
    attributes
        By name, a column of numbers.
    features
        By name, the columns, as of `NodeTable`.
    weight, time
        Columns that become the attributes "weight" and "time".
    labels
        By name, a column of labels, which becomes a feature of edges, and the labels of items if there is one.
    split
        A column with the name of the items that an edge is one of, such as "train"; items are pairs (src, dst).
    relation
        A column of texts, in a table whose type is (source type, `ANY`, destination type): edges with one text are
        those of the type with it in place of `ANY`, types in ascending order of texts. Null is refused.
    """

    table: Table
    type: EdgeType | None = None
    src: str = "src"
    dst: str = "dst"
    attributes: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, Columns] = field(default_factory=dict)
    weight: str | None = None
    time: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None
    relation: str | None = None

    def reads_with(self, other: EdgeTable) -> bool:
        """Whether one pass over a table reads these edges and others: those of other relations in it."""
        if self.relation is None or other.relation is None:
            return self is other
        mine, others = ((one.table, one.src, one.dst, one.relation) for one in (self, other))
        return mine == others


@dataclass(frozen=True, eq=False)
class Items:
    """Items of one type in a table of their own: nodes, or pairs of nodes.

    Parameters
    ----------
    name
        Such as "train".
    table
        A row for each item.
    ids
        A column of node ids, or the two columns of the ends of pairs.
    type
        The node type, or of pairs the edge type; None in a graph without types.
    labels
        A column of labels.
    time
        A column of times.
    """

    name: str
    table: Table
    ids: Columns = "id"
    type: str | EdgeType | None = None
    labels: str | None = None
    time: str | None = None


@dataclass(frozen=True)
class Options:
    """What to do with odd rows; each thing that is left out or added is counted in the report.

    Parameters
    ----------
    unknown_ids
        Of edges and items to nodes that no table of nodes has, and of null: "refuse"; "drop" leaves the edge or item
        out; "create" adds the nodes behind all others of the type, in ascending order of their ids, with NaN or 0 as
        features (null is refused).
    duplicate_ids
        Of rows of nodes whose id an earlier row of the type has: "refuse", or "drop" them; the first one stays.
    duplicate_edges
        "keep" edges of one type between the same nodes; "drop" all but the first one; or "sum" their weights, in the
        order of rows, into the weight of the first one, which keeps all else of its own. All are counted.
    loops
        "keep" edges from a node to itself; "drop" them; or "add" one to each node that has none, in edge types between
        nodes of one type, behind all other edges of the type. As with DGL, weights, attributes and features of added
        loops are 1; labels are NaN or -100, and times the earliest.
    undirected
        Add the reverse of each edge whose type has no edge in that direction, as ``graph.undirected()`` does: with its
        attributes, times, labels and features, behind the edges of the type. A type between nodes of two types gets a
        type of reverse edges, as by `reverse`, unless it has one or is one by its name. Items have the edges of tables
        alone.
    reverse
        Add the reverse of each edge type, as ``graph.with_reverse()`` does.
    null_times
        "refuse"; "earliest": such an edge or node has always been there, as `Graph.from_coo` has it; "drop" leaves out
        the edge or item (times of nodes are then refused).
    held_out
        Of edges that the `split` of their table makes items "val" or "test": "keep" them in the graph as well, or
        "drop" them from it. They are items alone then, their ends stay nodes, and the graph is the one to train on.
    time_unit
        What one unit of time is, such as "s": kept in the notes of the data set, and not interpreted. Of timestamps in
        Parquet and of texts it is found: ISO dates are "days" and datetimes "us" since 1970-01-01 in UTC.
    """

    unknown_ids: Literal["refuse", "drop", "create"] = "refuse"
    duplicate_ids: Literal["refuse", "drop"] = "refuse"
    duplicate_edges: Literal["keep", "drop", "sum"] = "keep"
    loops: Literal["keep", "drop", "add"] = "keep"
    undirected: bool = False
    reverse: bool = False
    null_times: Literal["refuse", "earliest", "drop"] = "refuse"
    held_out: Literal["keep", "drop"] = "keep"
    time_unit: str | None = None


@dataclass(frozen=True, eq=False)
class Description:
    """All that a conversion reads.

    Node types, edge types and items keep their order. Types of nodes that edges name and no `NodeTable` has are added
    behind the others. `tasks` are kept in the notes of the data set: what is known of each, such as its name. `notes`
    are kept there, too, by their names.
    """

    edges: Sequence[EdgeTable]
    nodes: Sequence[NodeTable] = ()
    items: Sequence[Items] = ()
    options: Options = field(default_factory=Options)
    tasks: Sequence[Mapping[str, Any]] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
