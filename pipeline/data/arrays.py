"""What users pass as arrays, taken as CPU tensors or refused with a reason."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import partial
from numbers import Integral, Real
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import HeadraceError, InputError
from headrace.pipeline.data.narrow_dtypes import are_numbers, as_bits, of_numpy

#: From here on a float64 does not have all integers.
_EXACT = 1 << 53

#: No memory has more bytes than a signed number of 64 bits counts.
MOST_BYTES = (1 << 63) - 1
#: So many seeds that are all 0 or 1 are no ids.
_LEAST_MASK = 16


def shown(value: object) -> str:
    """Return a text for a value that is the same in every process: the type's name where Python gives an address."""
    kind = type(value)
    says_nothing = kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__
    return kind.__name__ if says_nothing else str(value)


def describe(array: Any) -> str:
    """Return dtype, shape and (unless CPU) device, for error messages; of what is no array its class."""
    if not isinstance(array, Tensor | np.ndarray):
        return type(array).__name__
    if isinstance(array, Tensor) and array.is_nested:  # of which torch knows no shape
        return f"{str(array.dtype).removeprefix('torch.')} in a nested tensor"
    device = f" on {array.device}" if isinstance(array, Tensor) and array.device.type != "cpu" else ""
    sizes = ", ".join([f"{size}" for size in array.shape])  # not by str, which torch.compile has not for dynamic sizes
    return f"{str(array.dtype).removeprefix('torch.')}[{sizes}]{device}"


def is_one_of(value: object, words: Collection[str]) -> bool:
    """Whether a value is one of some words; arrays, which compare by element, and what has no hash are none."""
    return isinstance(value, str) and value in words


def check_kind(
    value: object, kind: type | tuple[type, ...], expected: str, advice: str, error: type[HeadraceError]
) -> None:
    """Refuse an argument of another class.

    Raises
    ------
    error
        Which says what was `expected`, in which function, and gives `advice`.
    """
    if not isinstance(value, kind):
        raise error(f"{expected}, got {type(value).__name__}; {advice}")


def expected(name: str) -> str:
    """Return how a message begins that refuses an argument; its name may have the function in front, ``"f: x"``."""
    function, colon, argument = name.rpartition(": ")
    return f"{function}{colon}expected {argument}"


def whole_number(value: Any, name: str, least: int, error: type[HeadraceError], most: int | None = None) -> int:
    """Return a Python int for any kind of integer but bool.

    Raises
    ------
    error
        If it is not an integer, or below `least`, or above `most`. `name` says what it is.
    """
    limits = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    try:
        number = operator.index(value)
    except (TypeError, RuntimeError):  # the latter of a tensor on "meta", which has no value
        number = None
    if number is None or _is_bool(value) or number < least or (most is not None and number > most):
        got = repr(value) if number is None or abs(number) < 1 << 1000 else "one of more than 300 digits"
        raise error(f"{expected(name)} to be {limits}, got {got}")
    return number


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) in (torch.bool, np.dtype(bool))


def number_above_0(value: Any, name: str, error: type[HeadraceError], most: float) -> float:
    """Return an int or a float for any kind of real number but bool, NumPy's by their text: float32(0.3) is 0.3.

    Raises
    ------
    error
        If it is not a number, not above 0, or above `most`. `name` says what it is.
    """
    number = as_number(value)
    if number is None or not 0 < number <= most:
        raise error(f"{expected(name)} to be a number above 0, got {value!r}")
    return number


def as_number(value: Any) -> int | float | None:
    """Return an int or a float for any kind of real number but bool, one of an array without dimensions too, or None.

    Those of NumPy go by their text: float32(0.3) is 0.3.
    """
    if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
        value = value.item() if isinstance(value, Tensor) else value[()]
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, Integral):
        return int(value)
    return float(str(value)) if isinstance(value, np.floating) else float(value)


def _call(name: str, method: str) -> str:
    """Return how to call a method of an argument: by its name, where it is not a description."""
    return f"{name}.{method}()" if name.isidentifier() else f"its .{method}()"


def as_cpu_tensor(array: ArrayLike | Tensor, name: str) -> Tensor:
    """Return a detached CPU tensor that shares the array's memory where it can; read-only memory maps are not copied.

    Raises
    ------
    InputError
        If the array is not numeric, or is a tensor on another device. `name` says which argument it was.
    """
    if isinstance(array, Tensor):
        if array.device.type != "cpu":
            raise InputError(
                f"{expected(name)} in CPU memory, got {describe(array)}; pass {_call(name, 'cpu')}: "
                "graphs and features are read from CPU memory in this version"
            )
        if array.layout != torch.strided:
            raise InputError(
                f"{expected(name)} to be a dense tensor, got {describe(array)} of layout {array.layout}; pass "
                f"{_call(name, 'to_dense')}"
            )
        if array.is_nested:
            raise InputError(
                f"{expected(name)} to be numbers in rows of one length, got a nested tensor; pad its rows, "
                "torch.nested.to_padded_tensor"
            )
        if not are_numbers(array.dtype):
            remedy = (
                f"pass {_call(name, 'dequantize')}; hr.QuantizedFeature takes the codes of a feature, of int_repr()"
                if array.is_quantized
                else "view them as what they are, such as tensor.view(torch.uint8)"
            )
            raise InputError(f"{expected(name)} to be numbers, got {describe(array)}; {remedy}")
        return array.detach()
    if hasattr(array, "tocoo"):
        raise InputError(
            f"{expected(name)} to be a dense tensor or array, got a {type(array).__name__} of SciPy, "
            f"{list(getattr(array, 'shape', ()))}; pass its .toarray()"
        )
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        num_masked = int(np.ma.getmaskarray(array).sum())
        raise InputError(
            f"{expected(name)} to be an array without a mask, got one that masks {num_masked} values; pass its "
            ".filled(value)"
        )
    try:
        values = np.asarray(array)
    except (TypeError, ValueError) as cause:
        # NumPy's own text speaks of its insides.
        came = "rows that differ in length" if "inhomogeneous" in str(cause) else f"what NumPy cannot read: {cause}"
        raise InputError(
            f"{expected(name)} to be numbers in rows of one length, got a {type(array).__name__} with {came}; pad "
            "ragged rows, or pass a tensor or array"
        ) from cause
    check_not_rounded(array, values, name)
    if values.size == 0 and values.ndim == 1 and not isinstance(array, np.ndarray):
        values = values.astype(np.int64)  # NumPy makes float64 of an empty list.
    if values.dtype.char in "qQ" and values.dtype.isnative:
        values = values.view(f"{values.dtype.kind}8")  # torch knows the other name of NumPy for 64 bits alone
    with warnings.catch_warnings():
        # Nothing here writes, so an array that cannot be written to is fine.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        try:
            lacking = of_numpy(values.dtype)
            return torch.from_numpy(values) if lacking is None else as_bits(values, lacking)
        except (TypeError, ValueError) as cause:
            # Of what is no array NumPy makes a single object, whose dtype and shape say nothing.
            came = describe(values) if values.ndim or isinstance(array, np.ndarray) else f"a {type(array).__name__}"
            raise InputError(
                f"{expected(name)} to be a numeric tensor or array that torch can hold, got {came}; "
                f"{_advice(values, array)}"
            ) from cause


def check_not_rounded(array: object, values: np.ndarray[Any, Any], name: str) -> None:
    """Refuse a list with an integer that NumPy has rounded to make one array of it.

    Of integers from 2**63 on beside smaller ones, and of integers beside fractions, it makes float64.

    Raises
    ------
    InputError
        Naming the integer. `name` says which argument it was.
    """
    if values.dtype != np.float64 or not isinstance(array, list | tuple) or not bool((abs(values) >= _EXACT).any()):
        return
    numbers = (int(one) for one in np.asarray(array, dtype=object).ravel() if isinstance(one, Integral))
    rounded = next((one for one in numbers if int(float(one)) != one), None)
    if rounded is not None:
        raise InputError(
            f"{expected(name)} to be numbers of one dtype, got {rounded}, for which the others leave float64 alone, "
            "which has no such number; pass an array of the dtype that you want"
        )


def version_of_tensor(tensor: Tensor) -> int | None:
    """Return how often torch has written to a tensor, or to what it is a view of; None where torch does not count."""
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001 - torch has no other name


def version_reader(tensor: Tensor) -> Callable[[], int] | None:
    """Return what `version_of_tensor` returns as a function of nothing, in a twentieth of a microsecond; None as it."""
    return None if tensor.is_inference() else partial(attrgetter("_version"), tensor)


def rows_at(rows: Tensor, positions: np.ndarray[Any, Any], name: str) -> Tensor:
    """Return a copy of the rows at some positions.

    Raises
    ------
    InputError
        If their memory was released since they were given. `name` says what they are.
    """
    try:
        return rows[torch.from_numpy(positions)]
    except RuntimeError as failure:
        size = rows.untyped_storage().nbytes()
        if size >= rows.nbytes:
            raise
        raise InputError(
            f"expected {name} to have their memory of {rows.nbytes} bytes, got a storage that was resized to {size}; "
            "make the plan anew"
        ) from failure


def refuse_gradient(array: object, name: str, read_by: str = "batch.n_id") -> None:
    """Refuse a tensor that learns: rows of batches are copies, through which no gradient would flow.

    Raises
    ------
    InputError
        If it requires a gradient. `name` says what it is, `read_by` by which ids of a batch a model reads it.
    """
    if isinstance(array, Tensor) and array.requires_grad:
        raise InputError(
            f"{expected(name)} without a gradient, got {describe(array)} that requires one, which copies of its rows "
            f"would not pass on; index it in the model, as in table[{read_by}.to(table.device)], or pass "
            "its values as they are: array.detach()"
        )


def _advice(values: np.ndarray, array: object) -> str:
    """Return how an array becomes one that torch can hold."""
    dtype = values.dtype
    if dtype.names:
        return f"a record has several numbers; pass one of them, array[{dtype.names[0]!r}], or each as its own feature"
    if dtype.kind == "V":
        return "these are bytes without a meaning; view them as what they are, such as array.view(numpy.uint16)"
    if dtype.kind == "O":
        return _of_objects(array)
    if dtype.kind in "US":
        return "map what it holds to numbers first: numpy.unique(array, return_inverse=True)[1]"
    if dtype.kind not in "biufc":
        return "map what it holds to numbers first"
    if dtype.isnative and all(stride >= 0 for stride in values.strides):
        return f"this torch has no {dtype}; convert it: array.astype(numpy.{_wider(dtype)})"
    return "pass a copy in native byte order with positive strides: array.astype(array.dtype.newbyteorder('='))"


def _of_objects(array: object) -> str:
    library = type(array).__module__.partition(".")[0]
    if library in ("pandas", "polars", "pyarrow"):
        return "pass its columns of numbers as one array of numbers, such as frame[names].to_numpy(dtype=numpy.float32)"
    if isinstance(array, Mapping):
        return f"pass one of its arrays, such as {name_of_first(array)}"
    if not isinstance(array, (np.ndarray, list, tuple)):
        return "pass a tensor, a NumPy array or a list"
    return "map what it holds to numbers first, such as numpy.stack(rows).astype(numpy.float32)"


def name_of_first(arrays: Mapping[Any, Any]) -> str:
    """Return how the first of several arrays is written, for error messages."""
    return f"arrays[{next(iter(arrays), 'x')!r}]"


def _wider(dtype: np.dtype[Any]) -> str:
    return {"u": "int64", "i": "int64", "c": "complex128"}.get(dtype.kind, "float64")


def as_ids(array: ArrayLike | Tensor, name: str) -> Tensor:
    """Return a 1-D int32 or int64 CPU tensor, possibly strided.

    Raises
    ------
    InputError
        If the array has another rank or dtype, or is not in CPU memory.
    """
    ids = as_cpu_tensor(array, name)
    if ids.ndim != 1 or ids.dtype not in (torch.int32, torch.int64):
        raise InputError(
            f"{expected(name)} to be int32 or int64 ids in one dimension, got {describe(ids)}; convert it first"
        )
    return ids.resolve_neg()  # by a lazy view torch itself would index other rows


def is_mask_of_integers(ids: Tensor, num_nodes: int) -> bool:
    """Whether integers are zeros and ones for all nodes: a mask, which would be read as the ids 0 and 1."""
    return ids.ndim == 1 and len(ids) == num_nodes >= _LEAST_MASK and 0 <= int(ids.min()) <= int(ids.max()) <= 1


def zeros_and_ones(num_nodes: int) -> str:
    """Return what came in place of ids, with the remedy, for errors."""
    return f"0 and 1 for each of {num_nodes} nodes; write mask.bool()"


def are_each_once(ids: Tensor) -> bool:
    """Whether n ids are each of 0, ..., n - 1 once, int32[n] or int64[n]."""
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < len(ids):
        return False
    found = torch.zeros(len(ids), dtype=torch.bool, device="cpu")
    found[ids.long()] = True
    return bool(found.all())


def as_node_mask(nodes: ArrayLike | Tensor, num_nodes: int, name: str) -> Tensor:
    """Return bool[num_nodes] for a mask of that shape or for a list of ids.

    Raises
    ------
    InputError
        If a mask has another length, or ids are not in [0, num_nodes). `name` says which argument it was.
    """
    given = as_cpu_tensor(nodes, name)
    if given.dtype == torch.bool:
        if given.shape != (num_nodes,):
            raise InputError(f"{expected(name)} to be bool[{num_nodes}] or ids of nodes, got {describe(given)}")
        return given
    ids = as_ids(given, name).long()
    if is_mask_of_integers(ids, num_nodes):
        raise InputError(f"{expected(name)} to be ids or a boolean mask, got {zeros_and_ones(num_nodes)}")
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < num_nodes:
        raise InputError(
            f"{expected(name)} to be ids in [0, {num_nodes}), got ids from {int(ids.min())} to {int(ids.max())}"
        )
    mask = torch.zeros(num_nodes, dtype=torch.bool, device="cpu")
    mask[ids] = True
    return mask


def as_rows(array: ArrayLike | Tensor, num_rows: int, name: str, each: str = "edge") -> Tensor:
    """Return a contiguous CPU tensor of `num_rows` rows.

    Raises
    ------
    InputError
        If the array is not numeric, has another number of rows, or is not in CPU memory.
    """
    rows = as_cpu_tensor(array, name)
    if rows.ndim == 0 or rows.shape[0] != num_rows:
        raise InputError(f"{expected(name)} to have {num_rows} rows, one for each {each}, got {describe(rows)}")
    return rows.contiguous()
