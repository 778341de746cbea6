"""Without a GPU the probes run in Triton's interpreter, which must be chosen before triton is first imported."""

from __future__ import annotations

import os
from pathlib import Path

if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
