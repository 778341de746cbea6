"""Wheels, sdists, editable installs and foreign folders: the profiles and kernels are found everywhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROBE = (
    "import rooflinecli.kernels, rooflinecli.profiles, pathlib, rooflinecli;"
    "from rooflinecli.hardware import load_profile;"
    "print(load_profile('a100').id, pathlib.Path(rooflinecli.profiles.__file__).parent)"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git tracks, as a copy: a build must not depend on what else lies in the working tree."""
    target = tmp_path_factory.mktemp("checkout") / "source"
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout  # fmt: skip
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def environment(folder: Path) -> Path:
    """An empty environment that sees this one's installed packages (the base dependencies), not the project."""
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    here = Path(sys.executable).parent.parent
    packages = next(here.glob("lib/python*/site-packages"))
    # Paths only: .pth files of the outer environment (an editable install of the project) are not read.
    (site / "outer.pth").write_text(f"{packages}\n")
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *arguments, "--quiet",
                    "--no-deps", "--no-build-isolation"], check=True)  # fmt: skip


def probe(python: Path, folder: Path) -> list[str]:
    done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout.split()


def test_every_package_is_listed() -> None:
    # A folder that is not listed works in a checkout and is missing from a wheel.
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    files = [path.relative_to(ROOT) for path in (ROOT / "rooflinecli").rglob("*") if path.is_file()]
    folders = {path.parent for path in files if "__pycache__" not in path.parts}
    assert listed == {".".join(folder.parts) for folder in folders} | {"rooflinecli.kernels", "rooflinecli.profiles"}


@pytest.mark.slow
@pytest.mark.parametrize("route", ["wheel", "sdist", "editable"])
def test_profiles_and_kernels_travel(checkout: Path, tmp_path: Path, route: str) -> None:
    # GIVEN a folder where somebody keeps a package called `kernels`
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kernels").mkdir(parents=True)
    (elsewhere / "kernels" / "__init__.py").write_text("raise ImportError('not ours')")
    python = environment(tmp_path / "env")
    # WHEN the project is installed by this route
    if route == "editable":
        pip(python, "install", "--editable", str(checkout))
    else:
        kind = ["--sdist"] if route == "sdist" else ["--wheel"]
        subprocess.run([sys.executable, "-m", "build", *kind, "--no-isolation", "--outdir", str(tmp_path / "dist"),
                        str(checkout)], check=True, capture_output=True)  # fmt: skip
        pip(python, "install", str(next((tmp_path / "dist").iterdir())))
    # THEN it finds its own kernels and profiles from any folder
    name, where = probe(python, elsewhere)
    assert name == "a100-sxm4-40gb"
    assert (str(checkout) in where) == (route == "editable")


@pytest.mark.slow
def test_running_from_the_checkout(checkout: Path, tmp_path: Path) -> None:
    name, where = probe(environment(tmp_path / "env"), checkout)
    assert (name, where) == ("a100-sxm4-40gb", str(checkout / "profiles"))
