"""A calibration as a profile: measured ceilings in place of the datasheet's, the rest kept with its source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rooflinecli.hardware.reader import parse_profile
from rooflinecli.measurement.calibrate import Calibration, Ceiling
from rooflinecli.units import parse_quantity

if TYPE_CHECKING:
    from rooflinecli.hardware import Figure, Profile

CALIBRATED = "calibration"
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))
_STREAMS = ("hbm_read", "hbm_write", "hbm_copy", "hbm_triad")
_PEAKS = ("fp32_vector", "fp16_tensor", "bf16_tensor", "tf32_tensor", "fp8_tensor", "int8_tensor")


def calibrated_profile(found: Calibration, base: Profile | None) -> str:
    """The YAML of a profile with the measured ceilings; `base` gives what was not measured, None leaves it unknown.

    The result has been read back: it validates.
    """
    import yaml

    document = _from_base(base) if base is not None else _from_device(found)
    document["sources"][CALIBRATED] = source_of(found)
    _put_measured(document, found)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=116, default_flow_style=None)
    parse_profile(text, f"{document['id']}.yaml")
    return text


def source_of(found: Calibration) -> str:
    """Who measured with what; begins with "measured", by which such figures are known."""
    versions = ", ".join(f"{name} {version}" for name, version in found.identity.versions.items())
    return f"measured on {found.identity.name} with rooflinecli calibrate ({versions})"


def best_stream(found: Calibration) -> Ceiling | None:
    """The fastest way to use HBM that was measured: no kernel's mix of reads and writes should beat it."""
    streams = [one for kind in _STREAMS if (one := found.ceiling(kind)) is not None]
    return max(streams, key=lambda one: one.median, default=None)


def _put_measured(document: dict[str, Any], found: Calibration) -> None:
    stream, l2 = best_stream(found), found.ceiling("l2_read")
    if stream is not None:
        note = f"{stream.kind.removeprefix('hbm_')}, the fastest of {', '.join(_names(found, _STREAMS))}"
        document["dram"]["bandwidth"] = _figure(stream, note)
    if l2 is not None:
        document["l2"]["bandwidth"] = _figure(l2)
    for kind in _PEAKS:
        one = found.ceiling(kind)
        if one is not None:
            document["peaks"][kind] = _figure(one)
    per_clock = found.identity.sm_count * _hertz(document)
    for kind, field, unit in (("exp", "exponentials", "op/clk"), ("shared_memory", "shared_memory_bandwidth", "B/clk")):
        one = found.ceiling(kind)
        if one is not None and per_clock:
            value = f"{one.median / per_clock:.6g} {unit}"
            document["sm"][field] = {"value": value, "source": CALIBRATED, "kind": "measured"}
    document["measured"] = [_record(one, found) for one in (*found.ceilings, *found.curve, *found.marches)]
    if found.l2_effective is not None:
        size = f"{found.l2_effective} B"
        effective = {"kind": "l2_effective_capacity", "unit": "B", "median": size, "low": size, "high": size}
        document["measured"].append({**effective, "source": CALIBRATED, "versions": dict(found.identity.versions)})
    document["notes"] += [f"Not measured: {kind}: {why}" for kind, why in found.missing.items()]


def _figure(one: Ceiling, note: str | None = None) -> dict[str, Any]:
    figure: dict[str, Any] = {"value": _text(one.median, one.unit), "source": CALIBRATED, "kind": "measured"}
    if one.sm_clock_low is not None and one.unit != "B/s":
        figure["clock"] = f"{one.sm_clock_low / 1e6:g} MHz"
    if one.throttling:
        note = "; ".join(filter(None, [note, f"held back by its {', '.join(one.throttling)}"]))
    return figure | ({"note": note} if note else {})


def _record(one: Ceiling, found: Calibration) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": one.kind, "unit": one.unit}
    record |= {name: _text(getattr(one, name), one.unit) for name in ("median", "low", "high")}
    record["source"] = CALIBRATED
    if one.footprint is not None:
        record["footprint"] = f"{one.footprint} B"
    if one.sm_clock_low is not None:
        record["clock"] = f"{one.sm_clock_low / 1e6:g} MHz"
    return record | {"versions": dict(found.identity.versions)}


def _text(value: float, unit: str) -> str:
    """Six digits and a prefix; seconds stay seconds."""
    if unit == "s":
        return f"{value:.6g} s"
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (1.0, ""))
    return f"{value / scale:.6g} {prefix}{unit}"


def _exact(value: float, unit: str) -> str:
    """Rates and clocks with a prefix, capacities in bytes; nothing is lost."""
    if not unit.endswith(("/s", "Hz")):
        return f"{value} {unit}"
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (1.0, ""))
    return f"{value / scale:.12g} {prefix}{unit}"


def _names(found: Calibration, kinds: tuple[str, ...]) -> list[str]:
    return [kind.removeprefix("hbm_") for kind in kinds if found.ceiling(kind) is not None]


def _hertz(document: dict[str, Any]) -> float:
    """The boost clock, which rates a clock are multiplied with."""
    boost = document["clocks"].get("boost")
    return float(parse_quantity(boost["value"], "Hz")) if isinstance(boost, dict) else 0.0


def _from_base(base: Profile) -> dict[str, Any]:
    """Everything the base profile holds, written as its file is, under a name that says what was done to it."""
    keys = {text: key for key, text in base.sources.items()}

    def kept(figure: Figure | None) -> Any:
        if figure is None:
            return "unknown"
        value = figure.value if figure.unit == "1" else _exact(figure.value, figure.unit)
        written: dict[str, Any] = {"value": value, "source": keys[figure.source], "kind": figure.kind}
        if figure.clock is not None:
            written["clock"] = f"{figure.clock / 1e6:g} MHz"
        return written | {
            name: given for name in ("accumulate", "note") if (given := getattr(figure, name)) is not None
        }

    def room(part: Any, *plain: str) -> dict[str, Any]:
        fields = {name: getattr(part, name) for name in type(part).model_fields}
        return {name: value if name in plain else kept(value) for name, value in fields.items()}

    document: dict[str, Any] = {
        "id": f"{base.id.removesuffix('-calibrated')}-calibrated",
        "name": f"{base.name.removesuffix(', calibrated')}, calibrated",
        **{name: getattr(base, name) for name in ("vendor", "architecture", "family", "compute_capability",
                                                  "form_factor", "scope")},
        "device_names": list(base.device_names),
        "sources": dict(base.sources),
        "sm_count": kept(base.sm_count),
        "clocks": {name: kept(getattr(base.clocks, name)) for name in type(base.clocks).model_fields},
        "dram": room(base.dram, "type"),
        "l2": room(base.l2),
        "sm": room(base.sm),
        "peaks": {name: kept(figure) for name, figure in base.peaks.items()},
        "power": kept(base.power),
        "links": room(base.links, "pcie"),
        "confidence": base.confidence,
        "notes": list(base.notes),
    }  # fmt: skip
    if base.l2_model is not None:
        model = base.l2_model
        document["l2_model"] = {"effective_capacity": kept(model.effective_capacity),
                                "private_capacity": kept(model.private_capacity), "spread": model.spread,
                                "provenance": model.provenance}  # fmt: skip
    return {name: value for name, value in document.items() if value is not None}


def _from_device(found: Calibration) -> dict[str, Any]:
    """What the card tells of itself, for a card without a profile."""
    card = found.identity
    slug = re.sub(r"[^a-z0-9]+", "-", card.name.lower().replace("nvidia", "")).strip("-") or "gpu"
    clocks = [one.sm_clock_high for one in found.ceilings if one.sm_clock_high is not None]

    def device(value: object) -> dict[str, Any]:
        return {"value": value, "source": "device", "kind": "device"}

    return {
        "id": f"{slug}-calibrated",
        "name": f"{card.name}, calibrated",
        "vendor": "nvidia",
        "architecture": "unknown",
        "family": slug,
        **({} if card.capability is None else {"compute_capability": "{}.{}".format(*card.capability)}),
        "device_names": [card.name],
        "sources": {"device": "read from the device"},
        "sm_count": device(card.sm_count),
        "clocks": {"boost": device(f"{max(clocks) / 1e6:g} MHz")} if clocks else {},
        "dram": {"capacity": device(f"{card.memory} B")},
        "l2": {} if card.l2 is None else {"size": device(f"{card.l2} B")},
        "sm": {},
        "peaks": {},
        "confidence": "medium",
        "notes": ["Made by rooflinecli calibrate on a card without a profile."],
    }
