"""The probes compute what they say, so that the work they are credited with is done."""

from __future__ import annotations

import pytest
import torch
from rooflinecli.kernels import probe_stream as stream
from rooflinecli.kernels import probe_units as units

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def numbers(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int32, device=DEVICE)


def test_reading_once_reads_everything() -> None:
    x, out = numbers(8 * stream.BLOCK), torch.zeros(4, dtype=torch.int32, device=DEVICE)
    assert stream.read(x, out) == 4 * x.numel()
    assert out.sum(dtype=torch.int64) % 2**32 == x.sum(dtype=torch.int64) % 2**32


def test_a_program_without_equal_share_is_refused() -> None:
    with pytest.raises(ValueError):
        stream.read(numbers(5 * stream.BLOCK), torch.zeros(4, dtype=torch.int32, device=DEVICE))


def test_going_around_reads_every_block_equally_often() -> None:
    # GIVEN 2 blocks read by 3 programs, 4 steps each: 12 blocks read, each of the two 6 times
    x, out = torch.ones(2 * stream.BLOCK, dtype=torch.int32, device=DEVICE), numbers(3)
    x[stream.BLOCK :] = 1000
    read = stream.read(x, out, nbytes=12 * 4 * stream.BLOCK)
    assert read == 12 * 4 * stream.BLOCK
    assert int(out.sum()) == 6 * stream.BLOCK * 1001


def test_marching_every_program_reads_everything() -> None:
    x, out = numbers(3 * stream.BLOCK), torch.zeros(4, dtype=torch.int32, device=DEVICE)
    assert stream.march(x, out, rounds=2) == 6
    expected = 2 * int(x.sum(dtype=torch.int64)) % 2**32
    assert [int(value) % 2**32 for value in out] == [expected] * 4


@pytest.mark.parametrize("shape", stream.COPY_SHAPES)
def test_every_shape_copies_everything(shape: tuple[int, int]) -> None:
    x, z = numbers(2 * 8192), torch.zeros(2 * 8192, dtype=torch.int32, device=DEVICE)
    stream.copy(x, z, *shape)
    assert torch.equal(z, x)


def test_write_copy_and_triad() -> None:
    x, y = numbers(2 * stream.BLOCK), numbers(2 * stream.BLOCK) * 5
    z = torch.zeros_like(x)
    assert stream.copy(x, z) == 2 * 4 * x.numel()
    assert torch.equal(z, x)
    assert stream.triad(x, y, z) == 3 * 4 * x.numel()
    assert torch.equal(z, x + 3 * y)
    assert stream.write(z) == 4 * x.numel()
    assert bool((z == 7).all())


def test_chains_run_to_their_fixed_points() -> None:
    out = torch.ones(2, units.BLOCK, device=DEVICE)
    assert units.fp32(out, 4) == 2 * 2 * units.BLOCK * 4 * units.UNROLL
    assert torch.allclose(out, torch.full_like(out, 2.0))
    out = torch.ones(2, units.BLOCK, device=DEVICE)
    assert units.exp2(out, 4) == 2 * units.BLOCK * 4 * units.UNROLL
    assert torch.allclose(out, torch.full_like(out, 0.6411857445))


@pytest.mark.gpu
def test_shared_memory_is_read_as_often_as_it_says() -> None:
    out = torch.zeros(3, units.SHARED_ROWS, units.SHARED_COLUMNS, device="cuda")
    assert units.shared(out, 5) == 4 * out.numel() * 5 * 8
    assert bool((out == 40).all())
