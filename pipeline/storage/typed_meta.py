"""How ``meta.json`` says types, and features of a type, whose names are no strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from headrace.ops.errors import InputError
from headrace.pipeline.data.feature_names import FeatureName, is_name
from headrace.pipeline.data.type_offsets import TypeName, TypeOffsets
from headrace.pipeline.storage.rows_meta import FeatureMeta, count_of, list_of, text_of

#: Names of types and how many ids each has, in order.
Counts = tuple[tuple[TypeName, int], ...]


def counts_of(types: TypeOffsets | None) -> Counts | None:
    """Return the names and counts of types."""
    return None if types is None else tuple(zip(types.names, types.offsets.diff().tolist(), strict=True))


def offsets_of(counts: Counts | None) -> TypeOffsets | None:
    """Return the types of names and counts."""
    return None if counts is None else TypeOffsets.from_counts(dict(counts))


def read_counts(value: Any) -> Counts | None:
    """Take types as JSON gave them: a list of names and counts, where triples are lists."""
    if value is None:
        return None
    return tuple((_type_name(name), count_of(count, "a count of a type")) for name, count in list_of(value))


def features_of_types(features: Mapping[FeatureName, FeatureMeta]) -> list[dict[str, Any]]:
    """Return what ``meta.json`` says of the features of types."""
    return [
        {"type": name[0], "name": name[1], **asdict(feature)}
        for name, feature in features.items()
        if not isinstance(name, str)
    ]


def read_features_of_types(value: Any) -> dict[FeatureName, FeatureMeta]:
    """Take features of types as JSON gave them."""
    features: dict[FeatureName, FeatureMeta] = {}
    for one in list_of(value):
        name = (_type_name(one["type"]), text_of(one["name"], "a name of a feature"))
        if name in features:
            raise InputError(f"the feature {name} is there twice")
        features[name] = FeatureMeta.read(one)
    return features


def file_of(kind: str, name: FeatureName) -> str:
    """Return the file of a feature ("node", "edge") or an attribute, whatever characters its name has.

    Type and name of a feature of a type are parted by commas, which names themselves are written without.
    """
    of_type, own = ((), name) if isinstance(name, str) else name
    parts = (of_type,) if isinstance(of_type, str) else of_type
    return f"{kind}.{','.join(quote(part, safe='') for part in (*parts, own))}.npy"


def _type_name(value: Any) -> TypeName:
    name = tuple(value) if isinstance(value, list) else value
    if not is_name((name, "")):
        raise InputError(
            f"expected a type to be a name, or a source type, a relation and a destination type, got {value!r}"
        )
    return name
