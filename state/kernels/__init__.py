"""What runs compiled. Plain functions on arrays; `state.memory` and `state.store` call them."""

from __future__ import annotations

from pathlib import Path

from state.kernels.fresh import remove_stale

remove_stale(Path(__file__).parent)
