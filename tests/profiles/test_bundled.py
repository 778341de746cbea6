"""The bundled profiles: loadable, sourced, consistent, and matched by exact names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rooflinecli.errors import InputError, UnavailableError
from rooflinecli.hardware import ALIASES, Profile, list_profiles, load_profile
from rooflinecli.hardware.checks import EXCEPTIONS, per_clock, warnings
from rooflinecli.hardware.detect import detect
from rooflinecli.hardware.matching import best_match
from rooflinecli.report.profiles import named_figures
from tests.conftest import Run

BUNDLED = list_profiles()


@pytest.mark.parametrize("profile", BUNDLED, ids=lambda profile: profile.id)
def test_figures_agree_with_each_other(profile: Profile) -> None:
    assert warnings(profile) == []


def test_exceptions_are_needed() -> None:
    # GIVEN the peaks that are excused, THEN none of them would pass without its excuse
    for (name, peak), reason in EXCEPTIONS.items():
        rate = per_clock(load_profile(name), load_profile(name).peaks[peak])
        assert rate is not None
        assert not any(abs(rate / 2**power - 1) < 0.01 for power in range(1, 16)), (name, peak)
        assert reason


@pytest.mark.parametrize("profile", BUNDLED, ids=lambda profile: profile.id)
def test_every_figure_has_a_source_and_a_unit(profile: Profile) -> None:
    figures = [figure for figure in named_figures(profile).values() if figure is not None]
    assert len(figures) > 10
    for figure in figures:
        assert len(figure.source) > 5
        assert figure.unit
        assert figure.value > 0
        # What nobody looked up says so.
        assert ("memory" in figure.source) == (figure.kind == "memory") or figure.kind == "derived"


def test_device_names_are_unique() -> None:
    names = [name for profile in BUNDLED for name in profile.device_names]
    assert len(names) == len(set(names)) >= len(BUNDLED)


def test_dense_peaks_that_are_often_printed_sparse() -> None:
    assert load_profile("h100").peaks["fp16_tensor"].value == 989.4e12
    assert load_profile("h100").peaks["fp16_tensor"].clock == 1830e6
    assert load_profile("a100").peaks["fp16_tensor"].value == 312e12
    assert load_profile("b200").peaks["fp16_tensor"].value == 2250e12
    assert load_profile("mi250x").peaks["fp16_tensor"].value == 191.5e12


@pytest.mark.parametrize(("name", "fits"), [("rtx-4090", 101376), ("a100", 166912), ("h100", 232448)])
def test_shared_memory_a_block_may_have(name: str, fits: int) -> None:
    limit = load_profile(name).sm.shared_memory_per_block
    assert limit is not None
    assert limit.value == fits


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", None),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("NVIDIA A800-SXM4-80GB", None),
        ("NVIDIA H20", None),
    ],
)
def test_names_match_whole_or_not_at_all(name: str, profile: str | None) -> None:
    found = best_match(BUNDLED, name)
    assert (found.id if found else None) == profile


def test_aliases_name_profiles() -> None:
    assert all(load_profile(alias).id == target for alias, target in ALIASES.items())
    assert load_profile("a100").id == "a100-sxm4-40gb"
    assert load_profile("H100").id == "h100-sxm5-80gb"


class FakeNvml:
    """The management library on a machine with one H200, MIG on and its power limited."""

    class NVMLError(Exception):
        pass

    def __init__(self, name: str | None = "NVIDIA H200") -> None:
        self.name = name

    def nvmlInit(self) -> None:
        if self.name is None:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, _: int) -> bytes:
        return (self.name or "").encode()

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlDeviceGetMemoryInfo(self, _: int) -> object:
        return type("Info", (), {"total": 150754820096})

    def nvmlDeviceGetEnforcedPowerLimit(self, _: int) -> int:
        return 500_000

    def nvmlDeviceGetMigMode(self, _: int) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetEccMode(self, _: int) -> list[int]:
        raise self.NVMLError("Not Supported")


def test_detect_says_which_profile_why_and_what_differs() -> None:
    found = detect(FakeNvml())
    assert found.profile.id == "h200-sxm-141gb"
    assert "NVIDIA H200" in found.why
    assert len(found.differs) == 2
    assert "500 W here, 700 W" in found.differs[0]
    assert "MIG is on" in found.differs[1]


def test_no_gpu_and_no_profile_say_what_to_do() -> None:
    for nvml in (FakeNvml(None), FakeNvml("NVIDIA H20")):
        with pytest.raises(UnavailableError) as raised:
            detect(nvml)
        assert raised.value.exit_code == 3
        assert raised.value.hint


def test_a_users_file_extends_and_overrides(run: Run, tmp_path: Path) -> None:
    # GIVEN a user's own a10, and a card of their own in the configuration folder
    original = Path(load_profile("a10").origin).read_text()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a10.yaml").write_text(original.replace("value: 150 W", "value: 120 W"))
    config = tmp_path / "config" / "rooflinecli" / "profiles"
    config.mkdir(parents=True)
    (config / "my-card.yaml").write_text(original.replace("id: a10", "id: my-card"))
    places = {"ROOFLINECLI_PROFILES": str(tmp_path / "mine"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    # WHEN they are listed and shown
    listed = json.loads(run("profiles", "list", "-f", "json", **places).stdout)["profiles"]
    shown = json.loads(run("profiles", "show", "a10", "-f", "json", **places).stdout)["profile"]
    # THEN both are there, and say where they came from
    origins = {one["id"]: one["origin"] for one in listed}
    assert origins["my-card"] == str(config / "my-card.yaml")
    assert origins["a10"] == str(tmp_path / "mine" / "a10.yaml")
    assert origins["t4"] == "bundled"
    assert shown["power"]["value"] == 120


def test_commands(run: Run) -> None:
    assert "h200-sxm-141gb" in run("profiles", "list", "--architecture", "hopper").stdout
    assert "a100" not in run("profiles", "list", "--architecture", "hopper").stdout
    nobody = run("profiles", "list", "--vendor", "nvidia", "--architecture", "cdna3")
    assert (nobody.returncode, nobody.stdout) == (2, "")
    assert "--architecture cdna3: no profile has it" in nobody.stderr
    assert "hopper" in nobody.stderr
    shown = run("profiles", "show", "a100", COLUMNS="160").stdout
    assert "312 TFLOP/s" in shown
    assert "200.6 FLOP/B over HBM" in shown
    assert run("profiles", "show", "a100", "-f", "yaml").stdout.startswith("id: a100-sxm4-40gb")
    assert json.loads(run("profiles", "schema").stdout)["title"] == "Profile"
    assert "dram.bandwidth" in run("profiles", "diff", "a100", "h100").stdout
    missing = run("profiles", "show", "a1000")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "did you mean" in missing.stderr
    with pytest.raises(InputError):
        load_profile("no/such.yaml")
