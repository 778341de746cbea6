"""What a GPU profile holds: every figure with its unit and source, unknown written as unknown and never as zero."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from rooflinecli.errors import InputError
from rooflinecli.units import parse_quantity

UNKNOWN = "unknown"
Kind = Literal["datasheet", "device", "derived", "measured", "memory"]


class _Strict(BaseModel):
    # Validators are built with the first profile: one for the whole, not one for each part beside it.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Figure(_Strict):
    """One figure. `value` is in the base unit `unit`; `source` is spelled out; a rate is quoted at `clock` (Hz).

    kind: a datasheet's or whitepaper's figure, read from the device, derived from others, measured, or written from
    memory and not looked up.
    """

    value: int | float = Field(gt=0, allow_inf_nan=False)
    unit: str
    source: str
    kind: Kind = "datasheet"
    clock: float | None = None
    accumulate: str | None = None
    note: str | None = None

    @property
    def is_measured(self) -> bool:
        """Whether somebody timed it, rather than promised it."""
        return self.kind == "measured"


class Measured(_Strict):
    """A ceiling somebody measured: median with its interval, what moved, where and with what."""

    kind: str
    unit: str
    median: float = Field(gt=0, allow_inf_nan=False)
    low: float = Field(gt=0, allow_inf_nan=False)
    high: float = Field(gt=0, allow_inf_nan=False)
    source: str
    footprint: int | None = None
    clock: float | None = None
    versions: dict[str, str] = {}


def _quantity(base: str | None) -> Any:
    """Reads `{value: 1555.2 GB/s, source: key}` into the fields of a `Figure`; `base` None is a plain whole number."""

    def read(given: object, info: ValidationInfo) -> object:
        if given is None or given == UNKNOWN:
            return None
        if isinstance(given, (Figure, Measured)):
            return given
        if not isinstance(given, dict):
            raise ValueError(f"write {{value: {_example(base)}, source: KEY}} or {UNKNOWN}")
        fields = dict(given)
        if "value" not in fields or "source" not in fields:
            raise ValueError(f"needs a value and a source: {{value: {_example(base)}, source: KEY}}")
        fields["value"] = _value(fields["value"], base)
        fields["unit"] = base or "1"
        if "clock" in fields:
            fields["clock"] = _value(fields["clock"], "Hz")
        fields["source"] = _source(fields["source"], info)
        return fields

    return BeforeValidator(read)


def _measured(given: object, info: ValidationInfo) -> object:
    if not isinstance(given, dict):
        return given
    fields = dict(given)
    unit = str(fields.pop("unit", "B/s"))
    for name in ("median", "low", "high"):
        if name in fields:
            fields[name] = _value(fields[name], unit)
    for name, base in (("footprint", "B"), ("clock", "Hz")):
        if fields.get(name) is not None:
            fields[name] = _value(fields[name], base)
    if "source" in fields:
        fields["source"] = _source(fields["source"], info)
    return {**fields, "unit": unit}


def _value(text: object, base: str | None) -> int | float:
    if base is None:
        if isinstance(text, bool) or not isinstance(text, int):
            raise ValueError(f"{text!r} is not a whole number")
        return text
    try:
        return parse_quantity(text, base)
    except InputError as error:
        raise ValueError(error.message + (f" ({error.hint})" if error.hint else "")) from None


def _source(key: object, info: ValidationInfo) -> str:
    sources = (info.context or {}).get("sources") or {}
    if key not in sources:
        raise ValueError(f"source {key!r} is not among this file's sources: {', '.join(sorted(sources)) or 'none'}")
    return str(sources[key])


def _example(base: str | None) -> str:
    return {None: "108", "B/s": "1555.2 GB/s", "B": "40 MiB", "FLOP/s": "312 TFLOP/s", "Hz": "1410 MHz"}.get(
        base, f"128 {base}"
    )


Count = Annotated[Figure | None, _quantity(None)]
Bytes = Annotated[Figure | None, _quantity("B")]
Bandwidth = Annotated[Figure | None, _quantity("B/s")]
Rate = Annotated[Figure | None, _quantity("FLOP/s")]
Clock = Annotated[Figure | None, _quantity("Hz")]
Power = Annotated[Figure | None, _quantity("W")]
PerClock = Annotated[Figure | None, _quantity("B/clk")]
OpsPerClock = Annotated[Figure | None, _quantity("op/clk")]
PEAKS = (
    "fp64_vector", "fp64_tensor", "fp32_vector", "fp32_tensor", "fp16_vector", "bf16_vector", "tf32_tensor",
    "fp16_tensor", "bf16_tensor", "fp8_tensor", "fp6_tensor", "fp4_tensor", "int8_tensor", "int8_vector", "int4_tensor",
)  # fmt: skip


def _peak_name(name: str) -> str:
    if name not in PEAKS:
        raise ValueError(f"no such peak; there are {', '.join(PEAKS)}")
    return name


PeakName = Annotated[str, AfterValidator(_peak_name)]


class Clocks(_Strict):
    """SM clocks: what the driver boosts to at most, and what the tensor peaks are quoted at."""

    boost: Clock = None
    tensor_peak: Clock = None


class Dram(_Strict):
    """Device memory: kind, bytes a program can allocate, bytes a second in both directions together."""

    type: str | None = None
    capacity: Bytes = None
    bandwidth: Bandwidth = None


class L2(_Strict):
    """The last cache before DRAM that the SMs read through; `last_level` is a memory-side cache behind it."""

    size: Bytes = None
    bandwidth: Bandwidth = None
    last_level: Bytes = None


class L2Model(_Strict):
    """Parameters of the L2 model for this card: what it keeps, and how gradually it stops.

    effective_capacity: of what every SM reads, which each half of the L2 keeps a copy of. private_capacity: of what
    one block writes and another reads. spread: standard deviation of the step between kept and lost, as a share.
    """

    effective_capacity: Bytes = None
    private_capacity: Bytes = None
    spread: float = Field(gt=0, lt=1)
    provenance: str


class Sm(_Strict):
    """One streaming multiprocessor (compute unit): what a block may take and what it moves a clock."""

    shared_memory: Bytes = None
    shared_memory_per_block: Bytes = None
    registers: Count = None
    threads: Count = None
    shared_memory_bandwidth: PerClock = None
    exponentials: OpsPerClock = None


class Links(_Strict):
    """To other GPUs (both directions together) and to the host."""

    nvlink: Bandwidth = None
    pcie: str | None = None


class Profile(_Strict):
    """The ceilings of one GPU. Figures that are not known are None. `origin` is the file it came from."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    name: str
    vendor: Literal["nvidia", "amd", "other"]
    architecture: str
    family: str
    compute_capability: str | None = Field(None, pattern=r"^\d+\.\d$")
    form_factor: str | None = None
    scope: str = "card"
    device_names: tuple[str, ...]
    sources: dict[str, str]
    sm_count: Count = None
    clocks: Clocks = Clocks()
    dram: Dram
    l2: L2 = L2()
    l2_model: L2Model | None = None
    sm: Sm = Sm()
    peaks: dict[PeakName, Annotated[Figure | None, _quantity("FLOP/s")]]
    power: Power = None
    links: Links = Links()
    measured: tuple[Annotated[Measured, BeforeValidator(_measured)], ...] = ()
    confidence: Literal["high", "medium", "low"] = "high"
    notes: tuple[str, ...] = ()
    origin: str = ""

    def model_post_init(self, _: Any) -> None:
        """Peaks written as unknown are no peaks."""
        object.__setattr__(self, "peaks", {name: peak for name, peak in self.peaks.items() if peak is not None})

    @property
    def exp_rate(self) -> Figure | None:
        """Exponentials a second of the whole GPU at its boost clock; None where a factor is unknown."""
        return self._whole(self.sm.exponentials, "op/s")

    @property
    def shared_memory_bandwidth(self) -> Figure | None:
        """Bytes a second that all SMs' shared memory moves at the boost clock; None where a factor is unknown."""
        return self._whole(self.sm.shared_memory_bandwidth, "B/s")

    def _whole(self, each: Figure | None, unit: str) -> Figure | None:
        clock = self.clocks.boost
        if each is None or self.sm_count is None or clock is None:
            return None
        return Figure(
            value=each.value * self.sm_count.value * clock.value,
            unit=unit,
            source=f"{each.value} {each.unit} ({each.source}) x {self.sm_count.value} SMs x {clock.value / 1e6:g} MHz",
            kind="measured" if each.is_measured else "derived",
            clock=clock.value,
        )
