"""The README and the documents: what they name exists, what they show is what is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rooflinecli.cli.app import COMMANDS
from tests.conftest import Run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"]+)"|\bhref="([^"]+)"')


def blocks(page: Path, language: str) -> list[str]:
    return [body for named, body in FENCED.findall(page.read_text()) if named == language]


def test_every_command_is_in_the_readme() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| \S", README.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run: Run, name: str) -> None:
    done = run(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"rooflinecli {name}" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    found = [next(filter(None, groups)) for groups in LINK.findall(FENCED.sub("", page.read_text()))]
    relative = [link for link in found if "://" not in link and not link.startswith(("#", "mailto:"))]
    missing = [link for link in relative if not (page.parent / link.partition("#")[0]).exists()]
    assert missing == []


def test_the_readme_shows_what_bytes_prints(run: Run) -> None:
    shown = [body for body in blocks(README, "") if body.startswith("$ rooflinecli bytes")]
    assert shown
    for body in shown:
        command, *lines = body.rstrip("\n").split("\n")
        done = run(*shlex.split(command)[2:])
        assert done.returncode == 0, done.stderr
        printed = iter([" ".join(line.split()) for line in done.stdout.split("\n")])
        excerpt = [" ".join(line.split()) for line in lines]
        # In this order; "..." stands for lines left out.
        missing = [line for line in excerpt if line not in ("", "...") and line not in printed]
        assert missing == []


def test_the_readme_says_what_its_python_prints(tmp_path: Path) -> None:
    text = README.read_text()
    snippets = list(re.finditer(r"^```python\n(.*?)^```\n(?:(?:[^\n]*\n){0,4}?```\n(.*?)^```$)?", text, re.M | re.S))
    assert snippets
    for snippet in snippets:
        code, after = snippet[1], snippet[2]
        remarks = re.findall(r"# (.*)$", code, re.MULTILINE)
        said = after.splitlines() if after and not after.startswith(("$", "./")) else remarks
        assert said, "the README does not say what its example prints, in remarks or in a block after it"
        assert python(code, tmp_path).splitlines() == said


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_the_python_of_the_documents_runs(page: Path, tmp_path: Path) -> None:
    for body in blocks(page, "python"):
        python(body, tmp_path)


def test_the_commands_of_the_page_on_profiles_run(run: Run, tmp_path: Path) -> None:
    page = ROOT / "docs" / "profiles.md"
    (tmp_path / "a40.yaml").write_text(blocks(page, "yaml")[0])
    commands = [line for body in blocks(page, "") for line in body.splitlines() if "# needs a GPU" not in line]
    assert len(commands) > 10
    for line in commands:
        *settings, _, rest = line.partition("rooflinecli ")
        places = dict(word.split("=") for setting in settings for word in setting.split())
        done = run(*shlex.split(rest), **places)
        assert (done.returncode, done.stderr) == (0, ""), line


def python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
                          cwd=folder, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
