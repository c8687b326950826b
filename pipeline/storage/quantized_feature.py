"""Features that are stored as codes of one byte, with the scale and the zero point by which they are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.features.decode import CODES, FLOATING
from headrace.pipeline.storage.decoding import Quantization
from headrace.pipeline.storage.feature_source import Adapted, FeatureSource, SourceLike, given_of
from headrace.pipeline.storage.features import as_source

#: Rows of which codes are made at once.
_PIECE = 1 << 16


class QuantizedFeature(Adapted):
    """Rows of codes, int8 or uint8, that are the numbers ``(code - zero_point) * scale``.

    ``fetch_feature(..., dtype=torch.float32)`` returns the numbers. All else sees the codes: files, caches, tiers,
    shards and exchanges between ranks hold a quarter of the bytes of float32. A fetch without ``dtype=`` is refused.

    >>> import torch
    >>> import headrace as hr
    >>> x = torch.tensor([[-1.0, 10.0], [0.0, 20.0], [1.0, 30.0]])
    >>> store = hr.FeatureStore(node={"x": hr.QuantizedFeature.of(x)})
    >>> store.node["x"]
    QuantizedFeature(uint8[3, 2])
    >>> plan = hr.ItemSampler(3, batch_size=3).fetch_feature(store, node=["x"], dtype=torch.float32)
    >>> next(iter(plan.loader())).x.round(decimals=1)
    tensor([[-1., 10.],
            [-0., 20.],
            [ 1., 30.]])

    Parameters
    ----------
    codes: [num_rows, ...]
        Of int8 or uint8: an array, or any source, such as ``hr.DiskFeature("codes.npy")``.
    scale
        A number, or one for each number of a row, of the shape of a row: for each column of a matrix.
    zero_point
        The code of 0, likewise.

    Raises
    ------
    InputError
        For codes of another dtype, and for scales or zero points that are not finite, or of another shape.
    """

    def __init__(
        self, codes: SourceLike | ArrayLike | Tensor, scale: ArrayLike | Tensor, zero_point: ArrayLike | Tensor = 0.0
    ) -> None:
        super().__init__(as_source(codes, "the codes"))
        self.given: FeatureSource
        if self.given.dtype not in CODES:
            raise InputError(
                f"QuantizedFeature: expected codes of int8 or uint8, got {self.given.dtype}; "
                "QuantizedFeature.of(x) makes codes of numbers, and floating features need no scale"
            )
        shape = tuple(self.given.shape[1:])
        self._quantization = Quantization(_numbers(scale, "scale", shape), _numbers(zero_point, "zero_point", shape))

    @staticmethod
    def of(x: Tensor, dtype: torch_dtype = torch.uint8) -> QuantizedFeature:
        """Return codes of numbers in memory: each column has a scale by which its least and largest number have codes.

        Numbers become those of the nearest of 256 codes, half a scale away at most: 1/510 of the range of the column.

        Parameters
        ----------
        x: [num_rows, ...]
            Finite numbers of a floating dtype.
        dtype
            uint8 or int8.

        Raises
        ------
        InputError
            If `x` is something else.
        """
        fits = isinstance(x, Tensor) and x.dtype in FLOATING and x.ndim > 0 and x.is_cpu
        if not fits or dtype not in CODES or not bool(x.isfinite().all()):
            came = f"{x.dtype}{list(x.shape)} on {x.device}" if isinstance(x, Tensor) else type(x).__name__
            came += " with numbers that are not finite" if fits and dtype in CODES else ""
            raise InputError(
                f"QuantizedFeature.of: expected finite rows of a floating dtype in CPU memory, and uint8 or int8 for "
                f"them, got {came} and {dtype}"
            )
        if not len(x):
            return QuantizedFeature(x.to(dtype), 1.0)
        lowest, highest = x.amin(0).double(), x.amax(0).double()
        scale = ((highest - lowest) / 255).float()
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        first = torch.iinfo(dtype).min
        zero_point = (first - lowest / scale.double()).float()
        codes = torch.empty(x.shape, dtype=dtype, device="cpu")
        for start in range(0, len(x), _PIECE):
            piece = x[start : start + _PIECE].double()
            rounded = (piece / scale + zero_point).round_().clamp_(first, first + 255)
            codes[start : start + _PIECE] = rounded.to(dtype)
        return QuantizedFeature(codes, scale, zero_point)

    @property
    def quantization(self) -> Quantization:
        """The scale and the zero point."""
        return self._quantization

    @property
    def codes(self) -> FeatureSource:
        """The source of the codes."""
        return given_of(self.given)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantizedFeature):
            return NotImplemented
        return self is other or (self.given == other.given and self.quantization == other.quantization)

    def __hash__(self) -> int:
        return hash(self.given)

    def __repr__(self) -> str:
        return f"QuantizedFeature({self.codes!r})"


def _numbers(given: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    refusal = f"QuantizedFeature: expected {name} to be a number or an array of real numbers, got {given!r}"
    try:
        numbers = torch.as_tensor(given, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(refusal) from error
    if numbers.is_complex():
        raise InputError(refusal)
    numbers = numbers.to(torch.float32)
    if tuple(numbers.shape) not in ((), shape):
        raise InputError(
            f"QuantizedFeature: expected {name} to be finite, one number or {list(shape)}, got {list(numbers.shape)}"
        )
    if not bool(numbers.isfinite().all()):
        raise InputError(f"QuantizedFeature: expected {name} to be finite, got {given!r}")
    return numbers.clone()


def with_scale(rows: SourceLike | ArrayLike | Tensor, fields: Mapping[str, Any] | None) -> Any:
    """Return rows with the scale that `Quantization.fields` of a file are; without one, as they are.

    Raises
    ------
    InputError
        If it is none of theirs.
    """
    if fields is None:
        return rows
    try:
        return QuantizedFeature(rows, fields["scale"], fields["zero_point"])
    except InputError as cause:
        raise InputError(f"expected the scale of codes in the file, but {cause}; copy it once more") from cause
