#!/usr/bin/env bash
# Makes an environment of its own in .venv-test and runs every check there: lint, types, tests.
# Arguments go to pytest: ./test.sh -k accounting
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=${PYTHON:-python3}
venv=.venv-test
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# torch is pinned: an open range pulls the newest CUDA build, which is gigabytes larger.
# Dependency groups need pip 25.1.
"$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
"$venv/bin/python" -m pip install --quiet --editable '.[measure,plot]' 'torch==2.13.0' 'triton>=3.7.1' --group test --group lint

"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
"$venv/bin/mypy"
exec "$venv/bin/python" -m pytest --numprocesses 2 -m "not gpu" "$@"
