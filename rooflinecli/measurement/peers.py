"""Torch's own attention backends, to measure beside the bundled kernels in the same process."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rooflinecli.accounting.ledger import Tile
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.kernels import Launch


@dataclass(frozen=True, slots=True)
class Peer:
    """One backend of torch's `scaled_dot_product_attention`.

    `tile` is what explains its counters (see the tests of the accounting), `algorithm` what it is accounted as.
    """

    name: str
    backend: str
    algorithm: str
    tile: Tile

    def supports(self, workload: Workload) -> str | None:
        """None where torch's call means this workload; the reason otherwise. The backend itself may still refuse."""
        w = workload
        if w.window is not None:
            return "torch's attention has no window"
        if w.causal and w.n_q != w.n_kv:
            return "torch aligns a causal mask to the top left"
        if w.kv_dtype != w.dtype or w.dtype not in ("fp32", "fp16", "bf16"):
            return f"torch's attention does not take {w.dtype} with {w.kv_dtype} keys"
        return None

    def prepare(self, inputs: Mapping[str, Any], workload: Workload) -> Launch:
        """A launch on the same inputs as the bundled kernel's."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        from rooflinecli.kernels import Launch

        backend = getattr(SDPBackend, self.backend)
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        outputs: dict[str, Any] = {}

        def run() -> None:
            with sdpa_kernel(backend):
                outputs["o"] = scaled_dot_product_attention(
                    q, k, v, is_causal=workload.causal, enable_gqa=workload.group > 1
                )

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch explains at length why it does not take the other backends
            try:
                run()
            except RuntimeError as error:
                reason = "refuses this workload" if "No available kernel" in str(error) else str(error)
                raise RuntimeError(f"torch's {self.backend.lower()} {reason}") from error
        return Launch(run, outputs, ())


PEERS = (
    Peer("torch_flash", "FLASH_ATTENTION", "flash2", Tile(128, 64)),
    Peer("torch_cudnn", "CUDNN_ATTENTION", "flash2", Tile(128, 128)),
    Peer("torch_efficient", "EFFICIENT_ATTENTION", "flash2", Tile(64, 128)),
)
BESIDE = ("flash_forward",)  # kernels whose inputs and reference are those of torch's call
