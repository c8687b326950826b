"""What makes rows as a source stores them those of the dtype that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.features.decode import FLOATING, decode_rows
from headrace.pipeline.data.digest import equal, sampled_digest
from headrace.pipeline.data.feature_names import FeatureName, listed
from headrace.pipeline.storage.feature_source import FeatureSource


@dataclass(frozen=True, eq=False)
class Quantization:
    """How codes are numbers: ``(code - zero_point) * scale``, in float32.

    Parameters
    ----------
    scale, zero_point
        float32: single numbers, or of the shape of a row.
    """

    scale: Tensor
    zero_point: Tensor

    def content_digest(self) -> str:
        """Return a string that differs when the numbers differ."""
        return sampled_digest([("scale", self.scale), ("zero_point", self.zero_point)])

    def fields(self) -> dict[str, Any]:
        """Return the numbers for JSON, which keeps all of their bits."""
        return {"scale": self.scale.tolist(), "zero_point": self.zero_point.tolist()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantization):
            return NotImplemented
        return equal(self.scale, other.scale) and equal(self.zero_point, other.zero_point)

    def __hash__(self) -> int:
        return hash(self.content_digest())


@dataclass(frozen=True)
class Decoding:
    """What makes the rows that a source stores those that a batch has.

    Parameters
    ----------
    dtype
        Of the rows of the batch.
    quantization
        Of the codes, if they are some.
    """

    dtype: torch_dtype
    quantization: Quantization | None = None

    def __call__(self, rows: Tensor, *, ids: Tensor | None = None, num_threads: int = 1) -> Tensor:
        """Return rows, or those of `ids`, decoded."""
        how = self.quantization
        scale, zero_point = (None, None) if how is None else (how.scale, how.zero_point)
        return decode_rows(rows, self.dtype, ids=ids, scale=scale, zero_point=zero_point, num_threads=num_threads)


def decoding_of(source: FeatureSource, dtype: torch_dtype, domain: str, name: FeatureName) -> Decoding | None:
    """Return what makes the rows of a feature those of a dtype; None if they are that.

    Raises
    ------
    InputError
        If the dtype cannot hold them.
    """
    how = source.quantization
    if source.dtype == dtype:
        return None
    what = f"{domain} feature {listed(name)}"
    if dtype not in FLOATING:
        raise InputError(
            f"fetch_feature: expected dtype to be float16, bfloat16, float32 or float64, or that of {what}, "
            f"{source.dtype}, got {dtype}, which cannot hold its values; to store fewer bytes make codes with a scale: "
            "hr.QuantizedFeature.of(x)"
        )
    if how is None and source.dtype not in FLOATING:
        raise InputError(
            f"fetch_feature: expected {what} of a floating dtype, or codes with a scale, for dtype={dtype}, got "
            f"{source.dtype}; fetch it by another fetch_feature without dtype=, or give codes their scale: "
            "hr.QuantizedFeature(codes, scale)"
        )
    return Decoding(dtype, how)


def not_decoded(source: FeatureSource, domain: str, name: FeatureName) -> InputError:
    """Return the error for codes where numbers are expected."""
    return InputError(
        f"fetch_feature: expected a dtype for {domain} feature {listed(name)}, which is stored as codes with a scale, "
        f"got none; pass dtype=torch.float32 for numbers, dtype={source.dtype} for the codes; labels are never decoded"
    )
