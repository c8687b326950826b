"""What ``meta.json`` says of rows of arrays, and how its fields are taken: as they are meant, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, TypeName, TypeOffsets, is_name, whole_number
from headrace.pipeline.data.narrow_dtypes import are_numbers
from headrace.pipeline.storage.array_file import stored_dtype
from headrace.pipeline.storage.feature_source import FeatureSource

#: Bytes of the name of a file, on the file systems that are usual.
_LONGEST_FILE = 255

#: Nodes, edges and rows that an int64 can count.
MOST = (1 << 63) - 1


@dataclass(frozen=True)
class RowsMeta:
    """The dtype, by its name in torch, and shape of one row of an array."""

    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(rows: Tensor | FeatureSource) -> RowsMeta:
        """Describe the rows of an array."""
        return RowsMeta(name_of(rows.dtype), tuple(map(int, rows.shape[1:])))

    @staticmethod
    def read(fields: dict[str, Any]) -> RowsMeta:
        """Take what JSON gave."""
        dtype_of(fields["dtype"])
        return RowsMeta(fields["dtype"], tuple(count_of(size, "a size of a row") for size in list_of(fields["shape"])))

    @property
    def torch_dtype(self) -> torch_dtype:
        """The dtype."""
        return dtype_of(self.dtype)


@dataclass(frozen=True)
class FeatureMeta:
    """A feature: its rows, how many of them there are, their fingerprint, and whether every rank reads all of them.

    The quantization is that of codes: their scale and zero point, numbers or nested lists of them.
    """

    rows: RowsMeta
    num_rows: int
    whole: bool
    digest: str
    quantization: dict[str, Any] | None = None

    @staticmethod
    def of(source: FeatureSource, *, whole: bool) -> FeatureMeta:
        """Describe a feature."""
        how = source.quantization
        quantization = None if how is None else how.fields()
        return FeatureMeta(RowsMeta.of(source), int(source.num_rows), whole, source.content_digest(), quantization)

    @staticmethod
    def read(fields: dict[str, Any]) -> FeatureMeta:
        """Take what JSON gave."""
        rows, num_rows = RowsMeta.read(fields["rows"]), count_of(fields["num_rows"], "num_rows")
        if not isinstance(fields["whole"], bool):
            raise InputError(f"expected whole to be true or false, got {fields['whole']!r}")
        digest = text_of(fields["digest"], "digest")
        return FeatureMeta(rows, num_rows, fields["whole"], digest, read_quantization(fields.get("quantization")))


def dtype_of(name: str) -> torch_dtype:
    """Return the dtype that torch calls by a name.

    Raises
    ------
    ValueError
        If this torch has none.
    """
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch_dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name!r}")  # noqa: TRY004 - of a file, not of a caller
    try:
        is_kept = are_numbers(dtype) and stored_dtype(dtype) is not None
    except (KeyError, RuntimeError, TypeError):
        is_kept = False
    if not is_kept:
        raise ValueError(f"arrays of {name} are not kept in files")
    return dtype


def name_of(dtype: torch_dtype) -> str:
    """Return the name by which torch calls a dtype."""
    return str(dtype).removeprefix("torch.")


def read_quantization(value: Any) -> dict[str, Any] | None:
    """Return the scale and the zero point of codes; None of rows that are values.

    Raises
    ------
    InputError
        If JSON gave something else.
    """
    if value is not None and (not isinstance(value, dict) or set(value) != {"scale", "zero_point"}):
        raise InputError(f"expected quantization to be null, or a scale and a zero_point, got {str(value)[:80]}")
    return value


def count_of(value: Any, name: str) -> int:
    """Return an integer from 0 to what an int64 can count.

    Raises
    ------
    InputError
        If JSON gave something else.
    """
    return whole_number(value, name, 0, InputError, MOST)


def text_of(value: Any, name: str) -> str:
    """Return a string.

    Raises
    ------
    InputError
        If JSON gave something else.
    """
    if not isinstance(value, str):
        raise InputError(f"expected {name} to be a string, got {value!r}")
    return value


def list_of(value: Any) -> list[Any]:
    """Return a list.

    Raises
    ------
    InputError
        If JSON gave something else.
    """
    if not isinstance(value, list):
        raise InputError(f"expected a list, got {value!r}")
    return value


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

    Raises
    ------
    InputError
        If the name is no Unicode, or too long for a file.
    """
    of_type, own = ((), name) if isinstance(name, str) else name
    parts = (of_type,) if isinstance(of_type, str) else of_type
    file = f"{kind}.{','.join(quote(as_utf8(part, 'a name'), safe='') for part in (*parts, own))}.npy"
    if len(file) > _LONGEST_FILE:
        raise InputError(
            f"expected a name that makes a file of at most {_LONGEST_FILE} bytes, got {file[:40]}..., of {len(file)}; "
            "shorten the name"
        )
    return file


def as_utf8(text: str, what: str) -> bytes:
    """Return a text as files have it.

    Raises
    ------
    InputError
        If it has surrogates, halves of characters, which no file can keep. `what` says what it is.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as cause:
        raise InputError(f"expected {what} to be Unicode, got {text[:80]!r}; replace its surrogates") from cause


def _type_name(value: Any) -> TypeName:
    name = tuple(value) if isinstance(value, list) else value
    if not is_name((name, "")):
        raise InputError(
            f"expected a type to be a name, or a source type, a relation and a destination type, got {value!r}"
        )
    return name
