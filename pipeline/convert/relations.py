"""Tables with the relation of each edge in a column: an edge type of each text, all read in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from headrace.ops import InputError
from headrace.pipeline.convert.description import ANY, Description, EdgeTable, EdgeType
from headrace.pipeline.convert.formats.views import Numbered
from headrace.pipeline.convert.table import Table

#: More texts are no relations, but names or ids.
MOST_RELATIONS = 10_000

_AT_A_TIME = 1 << 16


def with_relations(description: Description) -> Description:
    """Return a description with a table of edges of each relation, in place of one whose column names them.

    Relations are numbers in that column then, in the order of the edge types.

    Raises
    ------
    InputError
        If a relation is null or "", with its row, or there are too many.
    """
    return replace(description, edges=[one for edge in description.edges for one in _of_each_relation(edge)])


def number_of_relation(edge: EdgeTable) -> int:
    """Return the number that the edges of a table of one relation have in its column."""
    assert edge.relation is not None
    assert edge.type is not None
    return list(edge.table.classes[edge.relation]).index(edge.type[1])


def open_type(edge_type: EdgeType) -> EdgeType:
    """Return an edge type with its relation left open."""
    return edge_type[0], ANY, edge_type[2]


def _of_each_relation(edge: EdgeTable) -> Iterator[EdgeTable]:
    if edge.relation is None or edge.type is None:
        yield edge
        return
    texts = _texts_of(edge.table, edge.relation)
    table = Numbered(edge.table, [edge.relation], {edge.relation: texts})
    for text in texts:
        yield replace(edge, table=table, type=(edge.type[0], text, edge.type[2]))


def _texts_of(table: Table, column: str) -> Sequence[str]:
    """Return the texts in a column in ascending order."""
    found: set[str] = set()
    row = 0
    for chunk in table.chunks([column], _AT_A_TIME):
        texts = chunk[column]
        found.update(texts.tolist())
        if None in found or "" in found:
            null = np.array([not one for one in texts.tolist()])
            raise InputError(
                f"convert: {table.where(row + int(null.argmax()))}: expected a relation in {column!r}, got null; fill "
                "it in, or remove the row"
            )
        if len(found) > MOST_RELATIONS:
            raise InputError(
                f"convert: {table.name}: expected relations in {column!r}, got more than {MOST_RELATIONS} different "
                "texts; name the column of kinds of edges"
            )
        row += len(texts)
    if not found:
        raise InputError(f"convert: {table.name}: expected relations in {column!r}, got no row; leave the table out")
    return sorted(found)
