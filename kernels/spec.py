"""The contract between the bundled kernels and whoever measures or tests them.

A kernel is one module of this package with five functions (`supports`, `config`, `make_inputs`, `prepare`,
`reference`) and one `KernelSpec` that names the module and the accounting algorithm that describes it. The
module is imported when it is first asked something, so listing kernels needs neither torch nor triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rooflinecli.accounting.ledger import Tile
from rooflinecli.workload import Workload

Capability = tuple[int, int] | None  # of the device; None is Triton's interpreter on a CPU


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """How a kernel is cut and scheduled: `br` query rows by `bc` keys, `warps` a block, `stages` in flight.

    `variant` tells schedules of one algorithm apart: "triton", or "gluon" for Hopper. `page_size` is the tokens in
    a page of the cache that `make_inputs` makes, None where caches have no pages.
    """

    br: int
    bc: int
    warps: int = 4
    stages: int = 1
    splits: int = 1
    pack_gqa: bool = False
    variant: str = "triton"
    page_size: int | None = None

    @property
    def tile(self) -> Tile:
        """The tile the accounting describes this configuration with."""
        return Tile(
            self.br, self.bc, "kernel", splits=self.splits, pack_gqa=self.pack_gqa, page_size=self.page_size
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch ready to run as often as wanted, into outputs allocated (and poisoned) beforehand.

    `kernels` names the device kernels one call runs, in order, as a profiler shows them.
    """

    run: Callable[[], None]
    outputs: Mapping[str, Any]
    kernels: tuple[str, ...]

    def __call__(self) -> None:
        """Launch; asynchronous on a GPU."""
        self.run()


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One bundled kernel. `algorithm` is its name in `rooflinecli.accounting.ALGORITHMS`, or "probe"."""

    name: str
    algorithm: str
    module: str
    summary: str

    def supports(self, workload: Workload, capability: Capability) -> str | None:
        """None where the kernel runs this workload on such a device, else the reason why not."""
        return self._module().supports(workload, capability)  # type: ignore[no-any-return]

    def config(self, workload: Workload, capability: Capability) -> KernelConfig:
        """The tile table's answer."""
        return self._module().config(workload, capability)  # type: ignore[no-any-return]

    def make_inputs(self, workload: Workload, device: str, seed: int) -> dict[str, Any]:
        """Random input tensors by name, a new draw for every seed."""
        return self._module().make_inputs(workload, device, seed)  # type: ignore[no-any-return]

    def prepare(self, inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
        """Everything but the launch: descriptors, scratch, poisoned outputs."""
        return self._module().prepare(inputs, workload, config)  # type: ignore[no-any-return]

    def reference(self, inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
        """What the outputs should be, in float64."""
        return self._module().reference(inputs, workload)  # type: ignore[no-any-return]

    def _module(self) -> Any:
        return import_module(f"rooflinecli.kernels.{self.module}")
