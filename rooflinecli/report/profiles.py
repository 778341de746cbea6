"""How profiles are shown: a list, one card with every figure and its source, two cards side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.dtypes import DTYPES
from rooflinecli.hardware.library import is_bundled
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_capacity, format_rate

if TYPE_CHECKING:
    from rooflinecli.hardware import Figure, Profile
    from rooflinecli.hardware.detect import Detection


def list_view(profiles: list[Profile]) -> View:
    """One line a card."""
    records = [_summary(profile) for profile in profiles]
    document = {"schema": "rooflinecli/profiles/1", "version": __version__, "profiles": records}
    return View(document, records, lambda: [_list_sheet(profiles)])


def show_view(profile: Profile) -> View:
    """Every figure of one card, and its ridge points."""
    figures = {name: _figure_document(figure) for name, figure in named_figures(profile).items()}
    document = {
        "schema": "rooflinecli/profile/1",
        "version": __version__,
        "profile": profile.model_dump(mode="json"),
        "ridge_points": ridge_points(profile),
    }
    records = [{"figure": name, **fields} for name, fields in figures.items() if fields is not None]
    return View(document, records, lambda: [_show_sheet(profile)])


def diff_view(one: Profile, other: Profile) -> View:
    """Figures in which two cards differ."""
    first, second = named_figures(one), named_figures(other)
    names = [name for name in {**first, **second} if _value(first.get(name)) != _value(second.get(name))]
    records = [{"figure": name, one.id: _value(first.get(name)), other.id: _value(second.get(name))} for name in names]
    lines = [
        Line(name, [_shown(first.get(name)), _shown(second.get(name)), _ratio(first.get(name), second.get(name))])
        for name in names
    ]
    sheet = Sheet(f"{one.name} against {other.name}", [one.id, other.id, "ratio"], [Section("", lines)])
    document = {"schema": "rooflinecli/profiles-diff/1", "version": __version__, "differences": records}
    return View(document, records, lambda: [sheet])


def detect_view(found: Detection) -> View:
    """The GPU that is here."""
    document = {
        "schema": "rooflinecli/detect/1",
        "version": __version__,
        "device_name": found.device_name,
        "driver": found.driver,
        "profile": found.profile.id,
        "why": found.why,
        "differs": list(found.differs),
    }
    lines = [Line("profile", [f"{found.profile.id} ({found.profile.name})"], strong=True), Line("because", [found.why])]
    lines += [Line("differs", [text]) for text in found.differs or ("nothing that was looked at",)]
    sheet = Sheet(f"{found.device_name}, driver {found.driver}", [""], [Section("", lines)], left=True)
    return View(document, [flatten(document)], lambda: [sheet])


def named_figures(profile: Profile) -> dict[str, Figure | None]:
    """Every figure by its place in the file, and what follows from them."""
    found: dict[str, Figure | None] = {"sm_count": profile.sm_count}
    for group in ("clocks", "dram", "l2", "l2_model", "sm"):
        part = getattr(profile, group)
        for name in () if part is None else type(part).model_fields:
            value = getattr(part, name)
            if value is None or hasattr(value, "unit"):
                found[f"{group}.{name}"] = value
    found |= {f"peaks.{name}": peak for name, peak in profile.peaks.items()}
    found |= {"power": profile.power, "links.nvlink": profile.links.nvlink}
    return found | {"exponentials": profile.exp_rate, "shared memory bandwidth": profile.shared_memory_bandwidth}


def ridge_points(profile: Profile) -> dict[str, dict[str, float]]:
    """FLOP/B at which each format's peak meets each level's bandwidth."""
    levels = {"hbm": profile.dram.bandwidth, "l2": profile.l2.bandwidth}
    found = {}
    for dtype in DTYPES.values():
        peak = next((profile.peaks[name] for name in dtype.peaks if name in profile.peaks), None)
        if peak is not None:
            found[dtype.name] = {name: peak.value / rate.value for name, rate in levels.items() if rate is not None}
    return found


def _summary(profile: Profile) -> dict[str, Any]:
    return {
        "id": profile.id,
        "name": profile.name,
        "vendor": profile.vendor,
        "architecture": profile.architecture,
        "compute_capability": profile.compute_capability,
        "dram_bytes_per_s": _value(profile.dram.bandwidth),
        "dram_bytes": _value(profile.dram.capacity),
        "l2_bytes": _value(profile.l2.size),
        "fp16_flops_per_s": _value(profile.peaks.get("fp16_tensor")),
        "confidence": profile.confidence,
        "origin": "bundled" if is_bundled(profile) else profile.origin,
    }


def _list_sheet(profiles: list[Profile]) -> Sheet:
    lines = [
        Line(
            profile.id,
            [
                profile.compute_capability or profile.architecture,
                _shown(profile.peaks.get("fp16_tensor")),
                _shown(profile.dram.bandwidth),
                _shown(profile.dram.capacity),
                _shown(profile.l2.size),
                "bundled" if is_bundled(profile) else profile.origin,
            ],
        )
        for profile in profiles
    ]
    columns = ["capability", "fp16 dense", "bandwidth", "memory", "L2", "from"]
    return Sheet(f"{len(profiles)} GPU profiles", columns, [Section("", lines)])


_PARTS: tuple[tuple[str, str | tuple[str, ...]], ...] = (
    ("", "sm_count"),
    ("clocks", "clocks."),
    ("memory", "dram."),
    ("L2", "l2."),
    ("what the L2 model lets it keep", "l2_model."),
    ("each SM", "sm."),
    ("dense peaks of the whole GPU", "peaks."),
    ("power and links", ("power", "links.")),
    ("follows from these", ("exponentials", "shared memory b")),
)


def _show_sheet(profile: Profile) -> Sheet:
    sections = []
    for heading, prefix in _PARTS:
        lines = [
            Line(
                name.rsplit(".", 1)[-1].replace("_", " "),
                [_shown(figure), _quoted(figure), "" if figure is None else figure.source],
            )
            for name, figure in named_figures(profile).items()
            if name.startswith(prefix)
        ]
        if lines:
            sections.append(Section(heading, lines))
    ridges = [
        Line(
            name,
            [
                f"{at['hbm']:.1f} FLOP/B over HBM" if "hbm" in at else "unknown",
                f"{at['l2']:.1f} over L2" if "l2" in at else "",
                "",
            ],
        )
        for name, at in ridge_points(profile).items()
    ]
    capability = f", compute capability {profile.compute_capability}" if profile.compute_capability else ""
    return Sheet(
        title=f"{profile.name} ({profile.id})",
        subtitle=[
            f"{profile.vendor} {profile.architecture}{capability}",
            f"figures of one {profile.scope}, dense; confidence {profile.confidence}",
            f"drivers call it {', '.join(profile.device_names)}",
        ],
        columns=["value", "quoted", "source"],
        sections=[*sections, Section("ridge points", ridges), *_measured(profile)],
        notes=profile.notes,
        left=True,
    )


def _measured(profile: Profile) -> list[Section]:
    lines = [
        Line(
            one.kind.replace("_", " "),
            [
                _amount(one.median, one.unit),
                f"{_amount(one.low, one.unit)} to {_amount(one.high, one.unit)}",
                one.source,
            ],
        )
        for one in profile.measured
    ]
    return [Section("measured", lines)] if lines else []


def _quoted(figure: Figure | None) -> str:
    if figure is None:
        return ""
    kind: str = "FROM MEMORY, not looked up" if figure.kind == "memory" else figure.kind
    parts: list[str] = [] if figure.kind == "datasheet" else [kind]
    parts += [f"at {figure.clock / 1e6:g} MHz"] if figure.clock else []
    parts += [f"{figure.accumulate} accumulate"] if figure.accumulate else []
    return ", ".join([*parts, *([figure.note] if figure.note else [])])


def _shown(figure: Figure | None) -> str:
    return "unknown" if figure is None else _amount(figure.value, figure.unit)


def _amount(value: float, unit: str) -> str:
    if unit == "B":
        return format_capacity(value)
    if unit == "1":
        return f"{value:,}"
    if unit.endswith("/clk"):
        return f"{value:g} {unit}"
    return format_rate(value, unit)


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _ratio(one: Figure | None, other: Figure | None) -> str:
    return "" if one is None or other is None else f"{other.value / one.value:.3g}×"


def _figure_document(figure: Figure | None) -> dict[str, Any] | None:
    return None if figure is None else figure.model_dump(mode="json")
