"""decode_rows against the oracle and against torch, bit for bit, in every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, decode_rows, reference
from headrace.ops.features.decode import CODES, FLOATING, _by_torch

from strategies import thread_counts


def stored(dtype: torch.dtype, shape: list[int], seed: int) -> torch.Tensor:
    """Numbers of all bit patterns of a dtype: subnormals, infinities and nan as well."""
    bits = np.random.default_rng(seed).integers(0, 256, (int(np.prod(shape)), dtype.itemsize), dtype=np.uint8)
    return torch.from_numpy(bits.reshape(-1)).view(dtype).reshape(shape)


def same(found: torch.Tensor, expected: np.ndarray) -> bool:
    return np.array_equal(found.double().numpy(), expected, equal_nan=True)


@pytest.mark.usefixtures("instructions")
@given(
    st.sampled_from([*FLOATING, *CODES]),
    st.sampled_from(FLOATING),
    st.lists(st.integers(0, 5), max_size=2),
    st.booleans(),
    st.sampled_from([None, (), "row"]),
    thread_counts,
    st.integers(0, 2**32 - 1),
)
def test_equals_the_reference(dtype, to, shape, by_ids, scaled, num_threads, seed):
    """A row of 40 numbers more, so that vectors are filled."""
    shape = [*shape, 40] if seed % 2 else shape
    source = stored(dtype, [7, *shape], seed)
    generator = torch.Generator().manual_seed(seed)
    ids = (
        torch.randint(0, 7, (20,), generator=generator, dtype=[torch.int32, torch.int64][seed % 2]) if by_ids else None
    )
    of_row = [] if scaled == () else shape
    scale = None if scaled is None else torch.randn(of_row, generator=generator)
    zero = None if scaled is None else torch.randn(of_row, generator=generator) * 100
    with np.errstate(all="ignore"):
        found = decode_rows(source, to, ids=ids, scale=scale, zero_point=zero, num_threads=num_threads)
        rows = source if ids is None else source[ids.long()]
        numbers = None if scale is None else scale.expand(shape).numpy()
        zeros = None if zero is None else zero.expand(shape).numpy()
        expected = reference.decode_rows(rows.double().numpy(), str(to).removeprefix("torch."), numbers, zeros)
    assert found.dtype == to
    assert found.shape == rows.shape
    assert same(found, expected)
    # Other devices, by operations of torch.
    assert same(_by_torch(rows, to, *(None if one is None else one.expand(shape) for one in (scale, zero))), expected)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_two_bytes(dtype):
    every = torch.arange(1 << 16).to(torch.int32).to(torch.int16).view(dtype).reshape(-1, 64)
    assert same(decode_rows(every, torch.float32), every.double().numpy())
    assert same(decode_rows(every, torch.float64), every.double().numpy())
    wide = every.float()
    back = decode_rows(wide, dtype)
    # Half-way between two numbers, one bit below and above: to even, down, up.
    middle = (wide.view(torch.int32) + (1 << (15 if dtype == torch.bfloat16 else 12))).view(torch.float32)
    for off in (-1, 0, 1):
        near = (middle.view(torch.int32) + off).view(torch.float32)
        assert same(decode_rows(near, dtype), near.to(dtype).double().numpy())
    assert same(back, every.double().numpy())


@pytest.mark.parametrize("kind", ["columns", "transposed", "misaligned", "negated", "expanded"])
def test_rows_in_memory_of_any_kind(kind):
    plain = torch.arange(60, dtype=torch.float16).reshape(6, 10)
    given_rows = {
        "columns": lambda: torch.cat([plain, plain], 1)[:, 3:13],
        "transposed": lambda: plain.reshape(10, 6).t(),
        "misaligned": lambda: (
            torch.frombuffer(bytearray(121), dtype=torch.float16, offset=1).reshape(6, 10).copy_(plain)
        ),
        "negated": lambda: torch.complex(plain.float(), plain.float()).conj().imag,
        "expanded": lambda: plain[:1].expand(6, 10),
    }[kind]()
    ids = torch.tensor([5, 0, 5])
    assert torch.equal(decode_rows(given_rows, torch.float32), given_rows.float())
    assert torch.equal(decode_rows(given_rows, torch.bfloat16, ids=ids), given_rows[ids].bfloat16())


def test_threads_do_not_change_a_bit():
    source = torch.randn(20_000, 33).bfloat16()
    ids = torch.randint(0, len(source), (50_000,))
    one, *others = (decode_rows(source, torch.float32, ids=ids, num_threads=n) for n in (1, 2, 5))
    assert torch.equal(one, source[ids].float())
    assert all(torch.equal(one, other) for other in others)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": torch.tensor([0, 3])}, r"ids\[1\] = 3 has no row"),
        ({"ids": torch.tensor([-1])}, r"has no row"),
        ({"dtype": torch.int8}, "expected dtype to be float16"),
        ({"source": torch.zeros(3, 2, dtype=torch.int32)}, "got torch.int32"),
        ({"source": torch.tensor(1.0)}, "dense tensor of rows"),
        ({"scale": torch.ones(3)}, r"expected scale .* or \[2\], got torch.float32\[3\]"),
        ({"scale": torch.ones(2, dtype=torch.float64)}, "expected scale"),
        ({"scale": torch.tensor(1.0), "zero_point": torch.ones(1)}, "expected zero_point"),
        ({"zero_point": torch.tensor(1.0)}, "expected a scale with the zero point"),
    ],
)
def test_refusals(change, message):
    given_arguments = {"source": torch.zeros(3, 2), "dtype": torch.float16, **change}
    with pytest.raises(InputError, match=message):
        decode_rows(given_arguments.pop("source"), given_arguments.pop("dtype"), **given_arguments)
