"""`roofline` as a user runs it: figures, pictures, sweeps, drawing again, and what it says when things are missing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.roofline.svg import parse

ROOT = Path(__file__).parents[2]
PAIR = ("-a", "naive", "-a", "flash2")
# The command of docs/roofline.md for the documents' figure.
DOCUMENTS = (
    "--N", "2048", "--d", "64", "--dtype", "fp32", "--compute-dtype", "fp16", "--br", "64", "--bc", "64", *PAIR,
    "--exclude", "naive:O", "--memory-model", "textbook", "--gpu", "a100",
)  # fmt: skip


def test_the_documents_figure(run: Run, tmp_path: Path) -> None:
    done = run("roofline", *DOCUMENTS, "--plot", "roofline.svg", "-f", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    naive, flash = found["points"]
    assert (round(naive["intensity"], 2), naive["bytes"]) == (15.94, 68_681_728)
    assert round(naive["attainable"] / 1e12) == 25
    assert round(naive["attainable"] / 312e12, 2) == 0.08
    assert flash["bytes"] == 34_603_008
    assert [round(ridge["intensity"], 1) for ridge in found["ridges"]] == [200.6]
    # The picture says the same.
    words = " ".join(each.text for each in parse((tmp_path / "roofline.svg").read_bytes()).words)
    for part in (
        "ridge 200.6",
        "naive: 15.94 FLOP/B, 24.79 TFLOP/s",
        "7.9% of the peak",
        "whitepaper",
        "A100-SXM4-40GB",
    ):
        assert part in words


def documented() -> dict[str, list[str]]:
    """The commands of docs/roofline.md that draw its figures, by figure."""
    text = (ROOT / "docs" / "roofline.md").read_text().replace("\\\n", " ")
    commands = [line.split()[1:] for line in text.split("\n") if line.startswith("rooflinecli roofline")]
    return {Path(words[-1]).name: words[:-2] for words in commands if words[-2] == "--plot" and "figures/" in words[-1]}


def test_the_documents_show_the_command_of_their_figure() -> None:
    assert documented()["roofline-textbook.svg"] == ["roofline", *DOCUMENTS]


@pytest.mark.parametrize("name", [path.name for path in sorted((ROOT / "docs" / "figures").glob("roofline*.svg"))])
def test_the_figures_in_the_documents_are_what_their_commands_draw(run: Run, tmp_path: Path, name: str) -> None:
    # Words and places, not bytes: another version of matplotlib may write the same picture differently.
    done = run(*documented()[name], "--plot", name)
    assert done.returncode == 0, done.stderr
    fresh, kept = (parse((folder / name).read_bytes()) for folder in (tmp_path, ROOT / "docs" / "figures"))
    again = f"docs/figures/{name} is out of date: draw it again with the command in docs/roofline.md"
    assert [words.text for words in fresh.words] == [words.text for words in kept.words], again
    for one, other in zip(fresh.points, kept.points, strict=True):
        assert one == pytest.approx(other, abs=0.5)


def test_hierarchy_in_json(run: Run) -> None:
    found = json.loads(
        run("roofline", "--N", "8Ki", "--d", "64", "--gpu", "a100-sxm4-80gb", *PAIR, "-f", "json").stdout
    )
    by_level = {(point["algorithm"], point["level"]): point for point in found["points"]}
    assert set(by_level) == {(a, level) for a in ("naive", "flash2") for level in ("hbm", "sm", "textbook")}
    flash_sm, flash_hbm = by_level["flash2", "sm"], by_level["flash2", "hbm"]
    assert flash_sm["flops_per_s"] == flash_hbm["flops_per_s"]
    assert flash_sm["bytes"] > flash_hbm["bytes"]
    kinds = {(roof["id"], roof["kind"]) for roof in found["roofs"]}
    assert {("hbm", "bandwidth"), ("l2", "bandwidth"), ("fp16_tensor", "compute"), ("exp", "kernel")} <= kinds
    assert all(roof["source"] for roof in found["roofs"])
    assert {roof["id"] for roof in found["roofs"] if roof["measured"]} == {"l2"}


@pytest.mark.parametrize("width", ["60", "80", "160"])
def test_in_the_terminal_piped(run: Run, width: str) -> None:
    done = run("roofline", "--plot", "--N", "8192", "--d", "64", *PAIR, COLUMNS=width, PYTHONIOENCODING="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.split("\n"))) <= int(width)
    assert "200.6" in done.stdout
    assert "○" in done.stdout


def test_in_the_terminal_without_unicode(run: Run) -> None:
    done = run("roofline", "--N", "8192", "--d", "64", *PAIR, "--plot", PYTHONIOENCODING="ascii", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_several_pictures_and_the_data_at_once(run: Run, tmp_path: Path) -> None:
    done = run("roofline", "--N", "1k", "--d", "64", "--plot", "a.svg", "--plot", "a.html", "--plot=a.pdf", "--plot",
               "--data", "a.csv")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.html", "a.pdf", "a.svg"]
    assert "arithmetic intensity" in done.stdout
    assert done.stderr.split() == ["wrote", "a.svg", "wrote", "a.html", "wrote", "a.pdf", "wrote", "a.csv"]
    page = (tmp_path / "a.html").read_text()
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page
    assert "<script src" not in page
    assert '<link rel="stylesheet' not in page


def test_drawing_again_gives_the_same_picture(run: Run, tmp_path: Path) -> None:
    sweep = ("--sweep", "N=256..64Ki", "--d", "64", "--gpu", "h100", "--gpu", "a100", *PAIR)
    for arguments in (
        (*sweep, "--plot", "a.svg", "--data", "a.json"),
        ("--from", "a.json", "--plot", "b.svg", "--data", "b.csv"),
        ("--from", "b.csv", "--plot", "c.svg"),
    ):
        done = run("roofline", *arguments)
        assert done.returncode == 0, done.stderr
    pictures = {(tmp_path / f"{name}.svg").read_bytes() for name in "abc"}
    assert len(pictures) == 1


def test_a_bytes_result_draws_what_roofline_draws(run: Run, tmp_path: Path) -> None:
    same = ("--N", "8192", "--d", "128", "--heads", "16", "--causal", "--gpu", "a100-sxm4-80gb", *PAIR)
    assert run("bytes", *same, "-o", "bytes.json").returncode == 0
    drawn = json.loads(run("roofline", "--from", "bytes.json", "-f", "json").stdout)
    computed = json.loads(run("roofline", *same, "-f", "json").stdout)
    assert drawn["points"] == computed["points"]
    assert drawn["title"] == computed["title"]


def test_files_and_a_computation_overlay(run: Run) -> None:
    assert run("roofline", "--N", "2048", "--d", "64", "--data", "a.json").returncode == 0
    assert run("roofline", "--N", "4096", "--d", "64", "--data", "b.json").returncode == 0
    found = json.loads(
        run("roofline", "--from", "a.json", "--from", "b.json", "--N", "8192", "--d", "64", "-f", "json").stdout
    )
    assert {(point["run"], point["workload"]["n_q"]) for point in found["points"]} == {
        ("a", 2048), ("b", 4096), (None, 8192),
    }  # fmt: skip


def test_a_sweep_goes_over_every_value_and_lists_what_cannot_be(run: Run) -> None:
    done = run("roofline", "--sweep", "N=512..4Ki", "--sweep", "dtype=fp16,fp8", "--d", "64", "--gpu", "a100",
               "--gpu", "h100", "-a", "flash2", "-f", "csv")  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    seen = {(row["gpu"][:4], row["dtype"], row["at.N"]) for row in rows if row["record"] == "point"}
    counts = ("512", "1024", "2048", "4096")
    assert seen == {
        *(("a100", "fp16", n) for n in counts), *(("h100", f, n) for f in ("fp16", "fp8_e4m3") for n in counts),
    }  # fmt: skip
    refused = [row for row in rows if row["record"] == "undrawable"]
    assert len(refused) == 4
    assert all("no ceiling" in row["reason"] for row in refused)


def test_a_sweep_of_tiles(run: Run) -> None:
    swept = ("--N", "4096", "--d", "64", "--sweep", "br=64..4096", "--bc", "64")
    found = json.loads(run("roofline", *swept, "-a", "flash2", "-a", "naive", "-f", "json").stdout)
    sm = {point["at"]["br"]: point["bytes"] for point in found["points"]
          if (point["level"], point["algorithm"]) == ("sm", "flash2")}  # fmt: skip
    assert list(sm.values()) == sorted(sm.values(), reverse=True)
    assert 4096 not in sm
    assert any("br=4096" in lost["what"] for lost in found["undrawable"])
    naive = [point for point in found["points"] if (point["level"], point["algorithm"]) == ("sm", "naive")]
    assert len({point["bytes"] for point in naive}) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--plot", "x.gif"), "--plot x.gif: its suffix"),
        (("--plot", "x"), "--plot x: its suffix"),
        (("--plot", "no/such/x.svg"), "--plot no/such/x.svg: its folder"),
        (("--data", "x.yaml"), "--data x.yaml: its suffix"),
        (("--level", "l1"), "--level l1: must be one of hbm, sm, textbook"),
        (("--theme", "pink"), "--theme pink"),
        (("--plot", "-f", "json"), "both go to standard output"),
        (("--from", "nothing.json"), "--from nothing.json"),
        (("--sweep", "N=8..2"), "--sweep N=8..2"),
        (("--sweep", "dtype=fp99"), "fp99"),
        (("--sweep", "br=8192"), "br 8192"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    done = run("roofline", "--N", "1024", "--d", "64", "-a", "flash2", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr.split("\n")[0]
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_workload(run: Run) -> None:
    done = run("roofline", "--plot")
    assert done.returncode == 2
    assert "--N is missing" in done.stderr


def test_an_existing_picture_is_replaced_only_with_force(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.svg").write_text("precious")
    done = run("roofline", "--N", "1024", "--d", "64", "--plot", "x.svg")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--plot x.svg: exists already" in done.stderr
    assert (tmp_path / "x.svg").read_text() == "precious"
    assert run("roofline", "--N", "1024", "--d", "64", "--plot", "x.svg", "--force").returncode == 0
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(("picture", "library"), [("x.svg", "matplotlib"), ("x.html", "plotly")])
def test_a_missing_library_is_said_before_anything_is_computed(
    run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, picture: str, library: str
) -> None:
    # GIVEN an environment in which the library cannot be imported
    stub = tmp_path_factory.mktemp("stub")
    (stub / "sitecustomize.py").write_text(f"import sys\nsys.modules[{library!r}] = None\n")
    path = f"{stub}:{ROOT}"
    # WHEN a picture that needs it is asked for
    done = run("roofline", "--N", "1024", "--d", "64", "--plot", picture, "--data", "x.json", PYTHONPATH=path)
    # THEN one line says what is missing, with a code of its own, and nothing is written
    assert (done.returncode, done.stdout) == (3, "")
    assert f"--plot {picture}: needs {library}, which is not installed" in done.stderr
    assert "hint: pip install 'rooflinecli[plot]'" in done.stderr
    assert list(tmp_path.iterdir()) == []
    # The terminal needs neither of them.
    assert run("roofline", "--N", "1024", "--d", "64", "--plot", PYTHONPATH=path).returncode == 0


def test_figures_and_the_terminal_import_nothing_heavy(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    stub = tmp_path_factory.mktemp("stub")
    heavy = ("torch", "triton", "numpy", "matplotlib", "plotly")
    (stub / "sitecustomize.py").write_text(f"import sys\nfor name in {heavy!r}: sys.modules[name] = None\n")
    done = run("roofline", "--N", "1024", "--d", "64", "--plot", PYTHONPATH=f"{stub}:{ROOT}")
    assert done.returncode == 0, done.stderr
