# SPDX-License-Identifier: Apache-2.0
"""Spillway inside vLLM: a tier below its CPU tier, and an eviction policy for the CPU tier.

  vllm serve MODEL --kv-transfer-config '{"kv_connector": "OffloadingConnector",
    "kv_role": "kv_both", "kv_connector_extra_config": {
      "spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": 8589934592,
      "secondary_tiers": [{"type": "SpillwayTier", "module_path": "spillway.vllm",
                           "capacity": "64GiB", "disk_dir": "/var/cache/spillway"}]}}'

docs/engines.md has the settings, the hints a request may carry, and the versions that were run.
vLLM is imported when one of these names is first used, not before.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._policy import SpillwayPolicy
    from ._spec import SpillwayTieringSpec
    from ._tier import SpillwayTier

__all__ = ["SpillwayPolicy", "SpillwayTier", "SpillwayTieringSpec"]

_NAMES = {"SpillwayPolicy": "_policy", "SpillwayTier": "_tier", "SpillwayTieringSpec": "_spec"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module("." + _NAMES[name], __name__), name)
    globals()[name] = found
    return found
