# SPDX-License-Identifier: Apache-2.0
"""SpillwayTieringSpec: for vLLM 0.26, where a tier can't be named by its module.

  "kv_connector_extra_config": {"spec_name": "SpillwayTieringSpec",
    "spec_module_path": "spillway.vllm", "secondary_tiers": [{"type": "SpillwayTier", ...}]}

Importing it registers SpillwayTier with vLLM's factory; all else is vLLM's TieringOffloadingSpec. It
may be used with later versions as well. Where vLLM's CPU tier can't be given an eviction policy of
another module either (0.26), ``"eviction_policy": "SpillwayPolicy"`` is put in place here.
"""

from __future__ import annotations

import importlib
from typing import Any

from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

NAME = "SpillwayTier"
POLICY = "SpillwayPolicy"

if NAME not in SecondaryTierFactory._registry:
    SecondaryTierFactory.register_tier(NAME, "spillway.vllm", NAME)


def _own_policies() -> dict[str, Any] | None:
    """The table of policies of a vLLM whose manager has no other way to one."""
    manager = importlib.import_module("vllm.v1.kv_offload.cpu.manager")
    return getattr(manager, "_CACHE_POLICIES", None)


class SpillwayTieringSpec(TieringOffloadingSpec):
    """vLLM's tiered offloading, with SpillwayTier known by its name."""

    def get_manager(self) -> Any:
        """vLLM's manager, with SpillwayPolicy known where its table is closed to others."""
        policies = _own_policies()
        if policies is not None and POLICY not in policies:
            from ._policy import SpillwayPolicy
            policies[POLICY] = SpillwayPolicy
        return super().get_manager()
