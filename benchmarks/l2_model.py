"""Hold the L2 model to counter readings: every reading beside its prediction, as table and plot, and cross-validated.

    python benchmarks/l2_model.py docs      # writes docs/l2-model-readings.md and docs/figures/l2-model.svg

No GPU is needed: the readings are those of tests/data.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Cost, Tile
from rooflinecli.hardware import Profile, load_profile
from rooflinecli.hardware.schema import L2Model
from rooflinecli.memory.l2 import HbmTraffic, estimate
from rooflinecli.workload import Workload

ROOT = Path(__file__).parents[1]
MIB = 2**20
KINDS = ("flash2, dense", "flash2, causal", "naive, three kernels", "decode", "backward")
# Tiles of kernels that do not tell theirs: FlashAttention-2 and cuDNN run 128 rows; see tests/accounting.
UNTOLD = {"decode": Tile(16, 128, splits=8, pack_gqa=True)}


@dataclass(frozen=True)
class Reading:
    """One launch, or one chain of launches, with what its counters said."""

    kind: str
    source: str
    workload: Workload
    cost: Cost
    resident: int | None
    read: int

    def predicted(self, profile: Profile) -> HbmTraffic:
        """The model's estimate on `profile`."""
        return estimate(self.cost, self.workload, profile, self.resident)


def readings() -> list[Reading]:
    """Every reading that an algorithm's whole ledger describes: single kernels of a chain are summed."""
    rows = json.loads((ROOT / "tests/data/h200_counters.json").read_text())["readings"]
    found = [one for row in rows if row["algorithm"] in ("flash2", "naive-chain", "decode") for one in _single(row)]
    return sorted([*found, *_backward(rows)], key=lambda one: (KINDS.index(one.kind), one.source, one.read))


def _single(row: dict[str, Any]) -> Iterator[Reading]:
    workload, read = _workload(row), row["counters"]["dram_read_bytes"]
    if row["algorithm"] == "decode" and read < 10**7:
        return  # the combine kernel, whose reads are in the chain's ledger
    name = {"naive-chain": "naive"}.get(row["algorithm"], row["algorithm"])
    kind = {"naive": KINDS[2], "decode": KINDS[3]}.get(name) or KINDS[1 if workload.causal else 0]
    own = row.get("tile")
    tile = Tile(own["br"], own["bc"]) if own else UNTOLD.get(name, Tile(128, 128))
    resident = row["launch"]["blocks_per_sm"] if own else None
    yield Reading(kind, row["source"], workload, ALGORITHMS[name].cost(workload, tile), resident, read)


def _backward(rows: Iterable[dict[str, Any]]) -> Iterator[Reading]:
    chains: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["algorithm"] == "flash2-backward":
            chains.setdefault((row["source"], json.dumps(row["workload"])), []).append(row)
    for (source, _), parts in chains.items():
        workload = _workload(parts[0])
        cost = ALGORITHMS["backward"].cost(workload, Tile(128, 128))
        yield Reading(KINDS[4], source, workload, cost, None, sum(one["counters"]["dram_read_bytes"] for one in parts))


def _workload(row: dict[str, Any]) -> Workload:
    return Workload(**{**row["workload"], "window": row["workload"]["window"] or None})


def with_parameters(profile: Profile, shared: float, spread: float) -> Profile:
    """The profile with another effective capacity in bytes and another spread."""
    size = profile.l2.size
    assert size is not None
    capacity = size.model_copy(update={"value": round(shared)})
    model = L2Model.model_construct(
        effective_capacity=capacity, private_capacity=None, spread=spread, provenance="a trial"
    )
    return profile.model_copy(update={"l2_model": model})


def errors(found: Sequence[Reading], profile: Profile) -> list[float]:
    """|predicted / read - 1| of each."""
    return [abs(one.predicted(profile).read / one.read - 1) for one in found]


def fit(found: Sequence[Reading], profile: Profile) -> tuple[float, float]:
    """The effective capacity (bytes) and the spread with the least mean error, by grid."""
    trials = [(mib * MIB, spread) for mib in (20, 21, 22, 23, 24, 25, 26, 27, 28) for spread in (0.1, 0.14, 0.18)]
    return min(trials, key=lambda trial: statistics.fmean(errors(found, with_parameters(profile, *trial))))


def cross_validated(found: Sequence[Reading], profile: Profile, times: int = 20) -> Iterator[dict[str, float]]:
    """Fit on a random half, report on the other: the halves of one draw are both used."""
    for seed in range(times):
        order = random.Random(seed).sample(found, len(found))
        half = len(order) // 2
        for mine, others in ((order[:half], order[half:]), (order[half:], order[:half])):
            shared, spread = fit(mine, profile)
            seen = errors(others, with_parameters(profile, shared, spread))
            yield {
                "shared": shared / MIB, "spread": spread, "mean": statistics.fmean(seen),
                "median": statistics.median(seen), "within": sum(error <= 0.1 for error in seen) / len(seen),
            }  # fmt: skip


def beyond(found: Iterable[Reading]) -> list[Reading]:
    """Dense readings of tiled kernels that read more than each byte once: what the fit is about."""
    return [
        one
        for one in found
        if one.kind == KINDS[0] and one.resident and one.read > 1.05 * one.cost.traffic("compulsory").read
    ]


def document(found: Sequence[Reading], profile: Profile) -> str:
    """The page of readings, as Markdown."""
    held = list(cross_validated(beyond(found), profile))

    def spread(name: str, scale: float = 1) -> str:
        values = [one[name] * scale for one in held]
        return f"{statistics.fmean(values):.3g} ({min(values):.3g} to {max(values):.3g})"

    lines = [
        "# The L2 model beside every reading",
        "",
        "Written by `python benchmarks/l2_model.py docs`; the readings are those of `tests/data/h200_counters.json` "
        f"({profile.name}, caches flushed before each kernel; chains of kernels as one range). "
        "[How the model works](l2-model.md).",
        "",
        "![Predicted against read DRAM bytes of every reading](figures/l2-model.svg)",
        "",
        "## Error by kind",
        "",
        "In the interval is: within 1% and what each launch fetches besides, 25 kB.",
        "",
        "| kind | readings | median error | largest | within 10% | in the interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(_summary(kind, [one for one in found if one.kind == kind], profile) for kind in KINDS),
        _summary("of the dense: read more than once", beyond(found), profile),
        "",
        "## Cross-validation",
        "",
        f"The effective capacity and the spread, fitted on half of the {len(beyond(found))} dense readings beyond the "
        f"L2 and tried on the other half, {len(held)} times. Mean, and least to most:",
        "",
        "| of the half left out | |",
        "| --- | --- |",
        f"| mean error, % | {spread('mean', 100)} |",
        f"| median error, % | {spread('median', 100)} |",
        f"| readings within 10%, % | {spread('within', 100)} |",
        f"| fitted capacity, MiB | {spread('shared')} |",
        f"| fitted spread | {spread('spread')} |",
        "",
        "## Every reading",
        "",
        "Bytes in MB. `textbook` is what crosses the SM boundary, `once` each needed byte once.",
        "",
        "| kind | kernel | workload | textbook | once | predicted | interval | read | predicted / read |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
        *(_line(one, profile) for one in found),
    ]
    return "\n".join(lines) + "\n"


def _summary(kind: str, found: Sequence[Reading], profile: Profile) -> str:
    seen = errors(found, profile)
    inside = sum(_inside(one, profile) for one in found)
    return (
        f"| {kind} | {len(found)} | {statistics.median(seen):.1%} | {max(seen):.1%} | "
        f"{sum(error <= 0.1 for error in seen)} | {inside} |"
    )


def _inside(one: Reading, profile: Profile) -> bool:
    # A counter reads to about 1%, and every launch fetches its instructions and parameters too.
    found, launches = one.predicted(profile), len({row.step for row in one.cost.ledger if row.level == "sm"})
    return found.read_low * 0.99 <= one.read <= found.read_high * 1.01 + 25_000 * launches


def _line(one: Reading, profile: Profile) -> str:
    found, w = one.predicted(profile), one.workload
    heads = f"{w.heads}" if w.heads == w.kv_heads else f"{w.heads}/{w.kv_heads}"
    length = f"{w.n_q}" if w.n_q == w.n_kv else f"{w.n_q}x{w.n_kv}"
    tile = one.cost.tile
    shape = f"{w.batch}x{heads}x{length}, d={w.d}, {w.dtype}" + (", causal" if w.causal else "")
    shape += f", {tile.br}x{tile.bc}" if tile and one.resident else ""
    cells = [
        one.kind, one.source, shape, _mb(one.cost.traffic("sm").read), _mb(one.cost.traffic("compulsory").read),
        _mb(found.read), f"{_mb(found.read_low)} to {_mb(found.read_high)}", _mb(one.read),
        f"{found.read / one.read:.3f}" + ("" if _inside(one, profile) else " (outside)"),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _mb(size: float) -> str:
    return f"{size / 1e6:.4g}"


def figure(found: Sequence[Reading], profile: Profile) -> bytes:
    """Predicted over read DRAM bytes against how often the stream is larger than the L2, with intervals; SVG."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "rooflinecli", "svg.fonttype": "none"})
    drawn = Figure(figsize=(9, 5.2), layout="constrained")
    axes = drawn.subplots()
    axes.axhspan(0.9, 1.1, color="#dde3ea", lw=0, label="within 10%")
    axes.axhline(1, color="#3b4252", lw=1)
    styles = {KINDS[0]: ("o", "#003f88"), KINDS[1]: ("^", "#b8405e"), KINDS[2]: ("s", "#c08a00"),
              KINDS[3]: ("D", "#2a7f62"), KINDS[4]: ("v", "#7b5ea7")}  # fmt: skip
    for kind, (marker, colour) in styles.items():
        mine = [one for one in found if one.kind == kind]
        x = [one.read / one.cost.traffic("compulsory").read for one in mine]
        seen = [one.predicted(profile) for one in mine]
        y = [each.read / one.read for each, one in zip(seen, mine, strict=True)]
        for at, each, one in zip(x, seen, mine, strict=True):
            axes.plot([at, at], [each.read_low / one.read, each.read_high / one.read], color=colour, lw=1, alpha=0.35)
        axes.plot(x, y, marker, color=colour, mfc="none", ms=7, mew=1.6, label=kind)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.4, 6)
    ticks = (0.5, 0.7, 0.9, 1, 1.1, 1.5, 2, 3, 5)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(mpl.ticker.NullLocator())
    times = (1, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(times, [f"{time:g}×" for time in times])
    axes.set_xlabel("DRAM bytes read, as a multiple of each needed byte once")
    axes.set_ylabel("predicted / read")
    axes.set_title(f"HBM reads: predicted against counters of {profile.name}, intervals as lines", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper right")
    out = io.BytesIO()
    drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def main(folder: Path) -> None:
    found, profile = readings(), load_profile("h200-sxm-141gb")
    (folder / "l2-model-readings.md").write_text(document(found, profile))
    (folder / "figures" / "l2-model.svg").write_bytes(figure(found, profile))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
