"""Features of nodes and edges, read row by row wherever they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.ops.forks import cached_property
from headrace.ops.text import utf8
from headrace.pipeline.data.arrays import name_of_first, shown
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.feature_names import FeatureName, is_name, listed
from headrace.pipeline.data.types import TypeOffsets, type_size
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.feature_source import FeatureSource, SourceLike, given_of

#: Features by name, or by type and name.
Arrays: TypeAlias = Mapping[Any, ArrayLike | Tensor | SourceLike | Mapping[str, ArrayLike | Tensor | SourceLike]]


#: What a feature is called that has no name in a store.
_UNNAMED = "feature"

#: The members of sources that return rows, or write them.
_READS = ("read", "read_into", "read_decoded", "read_in_place")


def in_contract(source: SourceLike, what: str = "") -> FeatureSource:
    """Return a source that has all members, and whose rows are checked: the same if headrace reads it.

    Parameters
    ----------
    source
        The source.
    what
        What to call it in errors, such as "node feature 'x'".
    """
    if _is_read_by_headrace(source):
        return source  # type: ignore[return-value]
    from headrace.pipeline.storage.users_source import UsersSource  # loaded where there is one

    return UsersSource(source, what)


def _is_read_by_headrace(source: object) -> bool:
    """Whether rows of a source are read by methods of headrace alone, which need no check."""
    if "read" in getattr(source, "__dict__", ()):  # of this object alone
        return False
    if is_of_headrace(source):
        return True
    kind = type(source)
    methods = [getattr(kind, member, None) for member in _READS]
    if methods[0] is FeatureSource.read:
        return False
    return all(str(getattr(method, "__module__", None)).partition(".")[0] == "headrace" for method in methods)


def as_source(given: SourceLike | ArrayLike | Tensor, name: str = _UNNAMED) -> FeatureSource:
    """Return a source with all members, and an array as the source of its rows; `name` is what to call it in errors."""
    if not isinstance(given, FeatureSource):
        return ArraySource(given, name)  # type: ignore[arg-type]
    if name == _UNNAMED:
        return in_contract(given)
    source = in_contract(given, name)
    source._take_name(name)  # noqa: SLF001 - of a class of headrace
    return source


class FeatureSources(Mapping[FeatureName, FeatureSource]):
    """Named feature sources of one domain, "node" or "edge"; asking for a missing name lists those that exist.

    Features of a type have keys of two parts: ``store.node["paper", "x"]``.
    """

    def __init__(self, domain: str, arrays: Arrays) -> None:
        if not isinstance(arrays, Mapping):
            raise InputError(
                f"FeatureStore: expected {domain} features by name, such as {domain}={{'x': x}}, got "
                f"{type(arrays).__name__}; name each feature"
            )
        self._domain = domain
        self._sources: dict[FeatureName, FeatureSource] = {}
        for key, value in arrays.items():
            if isinstance(value, np.lib.npyio.NpzFile):
                raise InputError(
                    f"FeatureStore: expected {domain} feature {listed(key)} to be an array, got an .npz archive of "
                    f"{list(value)}; pass one of its arrays, such as {name_of_first(value)}"
                )
            # What is nested are the features of a type.
            of_type = (
                {(key, name): array for name, array in value.items()} if isinstance(value, Mapping) else {key: value}
            )
            for full, array in of_type.items():
                if not is_name(full):
                    raise InputError(
                        f"FeatureStore: expected a name, or a type and a name, of each {domain} feature, got {full!r}"
                    )
                what = f"{domain} feature {listed(full)}"
                self._sources[full] = as_source(array, what)

    def __getitem__(self, name: FeatureName) -> FeatureSource:
        if not is_name(name):
            raise InputError(
                f"FeatureStore: expected the name of a {self._domain} feature, got {type(name).__name__}; "
                f"those that exist are {self._names()}"
            )
        if name not in self._sources:
            types = [one[0] for one in self._sources if isinstance(one, tuple) and one[1] == name]
            advice = f"; it is a feature of types: fetch {{{types[0]!r}: {name!r}}}" if types else ""
            raise InputError(
                f"FeatureStore: there is no {self._domain} feature {listed(name)}; those that exist are "
                f"{self._names()}{advice}"
            )
        return given_of(self._sources[name])

    def in_contract(self, name: FeatureName) -> FeatureSource:
        """Return a source with all members of a `FeatureSource`, whatever class it is of."""
        self[name]
        return self._sources[name]

    def without_types(self, stage: str) -> dict[str, FeatureSource]:
        """Return the sources by name, for what does not heed types.

        Raises
        ------
        InputError
            If there are features of a type; it begins with `stage`.
        """
        typed = [name for name in self._sources if not isinstance(name, str)]
        if typed:
            raise InputError(f"{stage}: expected features of all {self._domain}s, got one of a type, {typed[0]!r}")
        return {name: source for name, source in self.items() if isinstance(name, str)}

    def _names(self) -> str:
        return str(sorted(self._sources, key=str)) if self._sources else "none"

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[FeatureName]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {shown(source)}' for name, source in self.items())}}}"


class FeatureStore:
    """Hold the features of nodes and edges by name.

    Parameters
    ----------
    node
        Arrays of num_nodes rows, row v for node v: tensors, NumPy arrays or memory maps, of any dtype and any number of
        dimensions, or other `FeatureSource` objects. Labels are a node feature like any other. Features of a type are
        nested, ``{"paper": {"x": x}}``, with a row for each node of the type; types may have different features.
    edge
        Arrays of num_edges rows in *input* edge order (that of ``graph.edge_ids`` and ``batch.e_id``). Features of an
        edge type are nested under its name, with a row for each of its edges.

    Raises
    ------
    InputError
        If an array is not numeric, has no dimension of rows, or is a tensor outside CPU memory.
    PlanError
        For features that are given by other names than `node` and `edge`.

    Notes
    -----
    The thread that iterates a loader may write tensors at any time: histories, memories, pseudo-labels. A batch
    contains all writes before it was handed out, although the loader reads ahead: torch counts the writes to a tensor,
    including its views, and a batch that was read before the last write is read again when it is due
    (``loader.stats()`` counts ``read_again``). If tensors are written for every batch, put ``.prefetch()`` before
    ``fetch_feature``: then only sampling runs ahead, and rows are read once, when they are due. Ranks that read rows
    for each other cannot read again: there a write is refused with that advice.

    - Sources count their writes in a property ``version``. Caches have the version of their source, and drop their
      copies when it changes. Writes to rows that were copied to tiers, or to other ranks, are refused.
    - Writes that torch does not count are not detected within an epoch: writes through NumPy, ``tensor.data``, a file,
      an optimiser with ``fused=True``, or collectives of torch.distributed that write to a tensor (``broadcast``,
      ``all_reduce``, ``recv``, ``scatter``); writes to arrays, memory maps, files and tensors of inference mode; and
      writes of another process to shared memory, because each process counts its own. Make such writes between epochs,
      or, of features without caches, put ``.prefetch()`` before ``fetch_feature``, or use ``loader(prefetch=False)``.
    - When an epoch begins, a cache compares its source with its state at the first copy, and drops all copies if it was
      written in any way, also by ``update``. Tiers, copies at other ranks, and a `DiskFeature` in a cache refuse such a
      write. All bytes of an array in memory are compared up to 1 GiB (0.1 s), of a memory map up to 16 MiB; of a larger
      one 4096 rows are, and of its file the size and the time of the last change. To change a few rows of such an
      array, write ``store.node[name].update(ids, rows)``. Features without copies are not compared. Sources of your own
      without `rows_in_place` define `content_mark` to be compared.
    - Other threads may only write between epochs.
    """

    def __init__(
        self,
        node: Arrays | None = None,
        edge: Arrays | None = None,
        **others: NoReturn,
    ) -> None:
        if others:
            from headrace.pipeline.storage.store_words import by_domain

            raise PlanError(
                f"FeatureStore: expected features of nodes in node=, of edges in edge=, got {', '.join(others)}=; "
                f"write {by_domain(others)}"
            )
        self.node = FeatureSources("node", {} if node is None else node)
        self.edge = FeatureSources("edge", {} if edge is None else edge)

    @classmethod
    def from_pyg(cls, data: Any) -> FeatureStore:
        """Return the features of a torch_geometric ``Data`` or ``HeteroData``, by its names and without copies.

        Features of a ``HeteroData`` are nested by type. Rows are in PyG's order, which is that of `Graph.from_pyg`.
        ``edge_label`` with a row for each edge is a feature of edges, but not beside ``edge_label_index``, whose links
        it labels. The graph itself is no feature; ``time`` and weights are.

        Raises
        ------
        InputError
            If `data` is neither class.

        Warns
        -----
        UserWarning
            Which attributes are left out, because they are not arrays with a row for each node or edge.
        """
        from headrace.pipeline.storage.features_of_pyg import features_of_pyg

        return cls(*features_of_pyg(data))

    def check(
        self,
        *,
        node: Sequence[FeatureName] = (),
        edge: Sequence[FeatureName] = (),
        num_nodes: int | None = None,
        num_edges: int | None = None,
        all_nodes: bool = True,
        types: tuple[TypeOffsets, TypeOffsets] | None = None,
        stage: str = "fetch_feature",
    ) -> None:
        """Check that the named features exist and are as long as the graph, before any batch is made.

        Raises
        ------
        InputError
            If a name is missing, or the number of rows of a feature is not that of nodes or edges; more rows would be
            those of another graph, with other ids. Without `all_nodes` (ids of a part of the nodes) more rows are
            allowed. Features of a type must have the number of rows given by `types`, of nodes and of edges.
            If there is no such type.
        """
        of_nodes, of_edges = (None, None) if types is None else types
        for sources, names, num_all, all_ids, of_type, what in (
            (self.node, node, num_nodes, all_nodes, of_nodes, "nodes"),
            (self.edge, edge, num_edges, True, of_edges, "edges"),
        ):
            for name in names:
                source: Any = sources.in_contract(name)
                source._check_declared()  # noqa: SLF001 - of a class of headrace
                num_rows, num_ids = source.num_rows, num_all
                if not isinstance(name, str):
                    num_ids = None if of_type is None else type_size(of_type, name[0])
                too_many = all_ids and num_ids is not None and num_rows > num_ids
                if too_many or (num_ids is not None and num_rows < num_ids):
                    remedy = "pass the whole feature, or the graph it belongs to"
                    if too_many and what == "edges":
                        from headrace.pipeline.storage.store_words import of_fewer_edges

                        remedy = of_fewer_edges(name)
                    raise InputError(
                        f"{stage}: expected {what[:-1]} feature {listed(name)} to have a row for each of the graph's "
                        f"{num_ids} {what}, got {num_rows} rows; {remedy}"
                    )

    if not TYPE_CHECKING:
        __iter__ = __contains__ = None  # Python would take numbers for names

        def __getitem__(self, name: Any) -> NoReturn:
            from headrace.pipeline.storage.store_words import not_by_name

            raise not_by_name(self, name)

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(type(self), name):  # a property that failed within: once more, for its own error
                object.__getattribute__(self, name)
            from headrace.pipeline.storage.store_words import missing

            raise missing(self, name)

    def share_memory(self) -> FeatureStore:
        """Move all tensors to shared memory, once, and return the store.

        `torch.multiprocessing` does so when it sends the store to other processes: all of them share one copy of its
        tensors, and see the writes of each. Memory maps are mapped again. Sources of other classes are shared if they
        have a ``share_memory``.
        """
        for sources in (self.node, self.edge):
            for name in sources:
                sources.in_contract(name).share_memory()
        return self

    def content_digest(self) -> str:
        """Return a fingerprint of all names and contents; large arrays are sampled."""
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        names = []
        for domain, sources in (("node", self.node), ("edge", self.edge)):
            for name in sorted(sources, key=str):
                source = sources.in_contract(name)
                how = "" if source.quantization is None else f" {source.quantization.content_digest()}"
                names.append(f"{domain}/{name}={source.content_digest()}{how}")
        text = np.frombuffer(utf8("\n".join(names)), dtype=np.uint8)
        return sampled_digest([("features", text)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureStore):
            return NotImplemented
        return self is other or (self.node == other.node and self.edge == other.edge)

    def __hash__(self) -> int:
        return hash((tuple(self.node), tuple(self.edge)))

    def __repr__(self) -> str:
        return f"FeatureStore(node={self.node!r}, edge={self.edge!r})"
