"""Tiles that fit: the documents' exercise, counting by brute force, and what must be true of any answer."""

from __future__ import annotations

import pytest

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Tile
from rooflinecli.calculator import account
from rooflinecli.errors import InputError
from rooflinecli.hardware import Profile, load_profile
from rooflinecli.memory.fitting import Fit, fitting_tiles
from rooflinecli.memory.occupancy import blocks_per_sm
from rooflinecli.memory.tiles import check_fits
from rooflinecli.workload import Workload

H100 = load_profile("h100")
PRACTICE_2 = Workload(n_q=8192, d=128)
PRACTICE_2_FP32 = Workload(n_q=8192, d=128, s_dtype="fp32")


def largest(fits: tuple[Fit, ...]) -> list[Fit]:
    return [fit for fit in fits if fit.product == fits[0].product]


def test_practice_2_the_largest_tile_of_an_h100() -> None:
    found = fitting_tiles(PRACTICE_2, H100, convention="scores", capacity="sm")
    assert found.capacity == 228 * 1024
    assert [(fit.br, fit.bc, fit.product, fit.bytes) for fit in largest(found.fits)] == [(288, 144, 41472, 230400)]


def test_practice_2_powers_of_two() -> None:
    for capacity in ("sm", "block"):
        found = fitting_tiles(PRACTICE_2, H100, convention="scores", capacity=capacity, step="x2")  # type: ignore[arg-type]
        assert [(fit.br, fit.bc) for fit in largest(found.fits)] == [(256, 128), (128, 256), (512, 64)]


def test_practice_2_with_s_as_kernels_hold_it() -> None:
    whole = fitting_tiles(PRACTICE_2_FP32, H100, convention="scores", capacity="sm")
    assert [(fit.br, fit.bc, fit.product) for fit in largest(whole.fits)] == [(192, 144, 27648), (288, 96, 27648)]
    block = fitting_tiles(PRACTICE_2_FP32, H100, convention="scores")
    assert block.capacity == 227 * 1024
    assert [(fit.br, fit.bc, fit.product) for fit in largest(block.fits)] == [(240, 112, 26880)]


WORKLOADS = [
    Workload(n_q=8192, d=128),
    Workload(n_q=300, n_kv=500, d=64, d_v=96, dtype="fp32"),
    Workload(n_q=4096, d=256, kv_dtype="fp8", causal=True),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: f"d={w.d}")
@pytest.mark.parametrize("step", [8, 16, 48])
def test_brute_force_finds_the_same_tiles(workload: Workload, step: int) -> None:
    # GIVEN what a tile takes, written out
    s, t, d, dv = workload.storage.block_bytes, workload.kv.block_bytes, workload.d, workload.d_v
    rows, keys = (-(-length // step) * step for length in (workload.n_q, workload.n_kv))

    def in_memory(br: int, bc: int) -> int:
        return s * br * bc + s * br * d + t * bc * (d + dv)

    def as_kernels(br: int, bc: int) -> bool:
        warps = sorted((4, br // 16, 8))[1]
        registers = (br * bc + br * dv + 2 * br) // (32 * warps) + 40
        return s * br * d + 2 * t * bc * (d + dv) <= 227 * 1024 and registers <= 255

    grid = [(br, bc) for br in range(step, min(rows, 1500) + 1, step) for bc in range(step, min(keys, 1500) + 1, step)]
    # WHEN every tile is asked one by one THEN the same ones fit
    kernel = {(fit.br, fit.bc) for fit in fitting_tiles(workload, H100, step=step).fits}
    assert kernel == {(br, bc) for br, bc in grid if as_kernels(br, bc)}
    for capacity, size in (("sm", 228 * 1024), (100_000, 100_000)):
        found = fitting_tiles(workload, H100, step=step, convention="scores", capacity=capacity)  # type: ignore[arg-type]
        assert {(fit.br, fit.bc) for fit in found.fits} == {(br, bc) for br, bc in grid if in_memory(br, bc) <= size}


@pytest.mark.parametrize("gpu", ["a100", "h200", "t4", "v100"])
def test_what_fits_is_what_the_other_commands_take(gpu: str) -> None:
    profile = load_profile(gpu)
    for fit in fitting_tiles(PRACTICE_2, profile).fits:
        tile = Tile(fit.br, fit.bc)
        check_fits(PRACTICE_2, tile, profile)
        assert fit.blocks_per_sm == blocks_per_sm(PRACTICE_2, tile, profile)


def test_intensity_and_bytes_are_those_of_bytes() -> None:
    fit = next(fit for fit in fitting_tiles(PRACTICE_2, H100, step="x2").fits if (fit.br, fit.bc) == (128, 64))
    result = account(PRACTICE_2, "h100", ["flash2"], br=128, bc=64).results[0]
    assert (fit.intensity, fit.sm_bytes) == (result.intensity.textbook, result.cost.traffic("sm").total)


def test_each_criterion_puts_its_best_first() -> None:
    def fits(by: str) -> tuple[Fit, ...]:
        return fitting_tiles(PRACTICE_2, H100, by=by).fits  # type: ignore[arg-type]

    everything = fits("product")
    assert fits("product")[0].product == max(fit.product for fit in everything)
    assert fits("sm-bytes")[0].sm_bytes == min(fit.sm_bytes for fit in everything)
    assert fits("intensity")[0].intensity == max(fit.intensity or 0 for fit in everything)
    assert fits("occupancy")[0].occupancy == max(fit.occupancy or 0 for fit in everything)


def test_packed_heads_share_what_they_read() -> None:
    decode = Workload(n_q=1, n_kv=8192, d=128, heads=32, kv_heads=8)
    packed, alone = (fitting_tiles(decode, H100, pack_gqa=packs).fits[0] for packs in (True, False))
    assert {(fit.br, fit.bc) for fit in (packed, alone)} == {(16, packed.bc)}
    assert packed.sm_bytes == ALGORITHMS["flash2"].cost(decode, Tile(16, 16, pack_gqa=True)).traffic("sm").total
    assert alone.sm_bytes > 3 * packed.sm_bytes


def test_registers_and_warps_limit_too() -> None:
    small = Workload(n_q=4096, d=16)
    on_t4 = {(fit.br, fit.bc): fit for fit in fitting_tiles(small, load_profile("t4"), step="x2").fits}
    assert on_t4[16, 16].limited_by == ("warps",)  # 128 threads of 1024
    assert (on_t4[16, 16].blocks_per_sm, on_t4[16, 16].occupancy) == (8, 1.0)
    on_h100 = {(fit.br, fit.bc): fit for fit in fitting_tiles(small, H100, step="x2").fits}
    assert on_h100[128, 64].limited_by == ("registers",)
    assert fitting_tiles(PRACTICE_2, H100).fits[0].limited_by == ("shared memory", "registers")


def without(profile: Profile, **figures: None) -> Profile:
    return profile.model_copy(update={"sm": profile.sm.model_copy(update=figures)})


def test_what_a_profile_does_not_know_is_said() -> None:
    blind = without(H100, shared_memory_per_block=None)
    with pytest.raises(InputError, match=r"--capacity block: .* does not know"):
        fitting_tiles(PRACTICE_2, blind)
    assert fitting_tiles(PRACTICE_2, blind, capacity=232448).fits
    with pytest.raises(InputError, match="--by occupancy"):
        fitting_tiles(PRACTICE_2, load_profile("mi300x"), by="occupancy")
    assert fitting_tiles(PRACTICE_2, load_profile("mi300x")).fits[0].occupancy is None


def test_absurd_grids_end() -> None:
    huge = Workload(n_q=2**40, d=128)
    assert fitting_tiles(huge, H100, capacity=2**50, step=64).fits  # registers end it
    with pytest.raises(InputError, match=r"--step 16: more than \d+ tiles"):
        fitting_tiles(huge, H100, convention="full", capacity=2**50)
    assert "16 x 16" in (fitting_tiles(Workload(n_q=64, d=8192), H100).refusal or "")
