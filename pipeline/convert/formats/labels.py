"""Labels that are texts, as numbers: one order of texts for nodes or edges of a type and for all their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Description, EdgeTable, Items, NodeTable
from headrace.pipeline.convert.formats.views import Numbered, classes_of
from headrace.pipeline.convert.relations import open_type
from headrace.pipeline.convert.table import Table

#: Of labels the type that they are of, and their column.
Kind = tuple[Any, str]

Owner = NodeTable | EdgeTable | Items
One = TypeVar("One", NodeTable, EdgeTable, Items)


def numbered(table: Table, labels: Mapping[str, str]) -> Table:
    """Return a table whose columns of labels are numbers."""
    texts = [column for column in labels.values() if table.column(column).is_text]
    return Numbered(table, texts) if texts else table


def with_numbered_labels(description: Description) -> Description:
    """Return a description whose labels are numbers; equal texts of one kind have one number in all tables.

    Raises
    ------
    InputError
        If labels of one kind are texts in one table and numbers in another one, or there are too many texts.
    """
    owners: list[Owner] = [*description.nodes, *description.edges, *description.items]
    tables = [(owner.table, owner) for owner in owners if owner.table is not None]
    open_types = frozenset(one.type for one in description.edges if one.relation is not None)
    _refuse_texts_beside_numbers(tables, open_types)
    classes = classes_of((table, texts) for table, owner in tables if (texts := _texts_of(table, owner, open_types)))

    def with_numbers(owner: One) -> One:
        if owner.table is None:
            return owner
        texts = {column: classes[kind] for column, kind in _texts_of(owner.table, owner, open_types).items()}
        return replace(owner, table=Numbered(owner.table, list(texts), texts)) if texts else owner

    return replace(
        description,
        nodes=[with_numbers(one) for one in description.nodes],
        edges=[with_numbers(one) for one in description.edges],
        items=[with_numbers(one) for one in description.items],
    )


def _kinds_of(owner: Owner, open_types: AbstractSet[Any]) -> dict[str, Kind]:
    """Return the columns of labels with their kinds; types of one table with relations in a column are of one kind."""
    of_type: Any = owner.type
    if isinstance(of_type, tuple) and open_type(of_type) in open_types:
        of_type = open_type(of_type)
    if isinstance(owner, Items):
        of_type = of_type or ("node" if isinstance(owner.ids, str) else None)
        return {} if owner.labels is None else {owner.labels: (of_type, owner.labels)}
    return {column: (of_type, column) for column in owner.labels.values()}


def _texts_of(table: Table, owner: Owner, open_types: AbstractSet[Any]) -> dict[str, Kind]:
    return {column: kind for column, kind in _kinds_of(owner, open_types).items() if table.column(column).is_text}


def _refuse_texts_beside_numbers(owners: Sequence[tuple[Table, Owner]], open_types: AbstractSet[Any]) -> None:
    tables: dict[Kind, list[Table]] = {}
    for table, owner in owners:
        for kind in _kinds_of(owner, open_types).values():
            tables.setdefault(kind, []).append(table)
    for (_, column), some in tables.items():
        texts = [table for table in some if table.column(column).is_text]
        numbers = [table for table in some if table not in texts and _has_numbers(table, column)] if texts else []
        if numbers:
            raise InputError(
                f"convert: expected labels {column!r} to be texts or numbers in all tables, got texts in "
                f'{texts[0].name} and numbers in {numbers[0].name}; of CSV write types = {{ {column} = "text" }}, '
                "else convert one of them"
            )


def _has_numbers(table: Table, column: str) -> bool:
    """Return whether the first rows have a number: a column without any label is one of numbers, too."""
    first = next(table.chunks([column], 4096), {column: np.zeros(0)})[column]
    null = np.ma.getmaskarray(first) | (np.isnan(np.ma.getdata(first)) if first.dtype.kind == "f" else False)
    return not bool(null.all())
