# SPDX-License-Identifier: Apache-2.0
"""The namespace of an engine's blocks: a hash over all that changes their bits.

vLLM's block hashes name tokens, adapters and salts, but neither the model nor how its bytes are laid
out. Two engines share blocks only if all of these facts are equal: the model's weights (by content,
not by name), revision and config, quantization, dtypes, block and chunk size, groups and layers,
layout, parallel sizes and rank, device, and vLLM's version.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

from .. import _fingerprint

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".json")
_DEPTH_MAX = 60


def find_vllm_config() -> Any:
    """The VllmConfig of the engine that is being built, or None.

    A tier is given names and sizes only, neither revision nor adapter. vLLM builds it inside its
    scheduler's constructor, whose frame has the whole config. There is no public way to it.
    """
    frame = sys._getframe(1)
    for _ in range(_DEPTH_MAX):
        if frame is None:
            return None
        for name in ("vllm_config", "config"):
            found = frame.f_locals.get(name)
            if type(found).__name__ == "VllmConfig":
                return found
        frame = frame.f_back  # type: ignore[assignment]
    return None


def folder_of(model: str, revision: str | None) -> str | None:
    """The folder of a model's files: the name itself, or what huggingface_hub has downloaded."""
    if os.path.isdir(model):
        return model
    try:
        from huggingface_hub import try_to_load_from_cache
        found = try_to_load_from_cache(model, "config.json", revision=revision)
    except Exception:  # No such package, or a name that it does not take.
        return None
    return os.path.dirname(found) if isinstance(found, str) else None


def fingerprint(folder: str) -> str:
    """A hash over the model's files."""
    total = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        path = os.path.realpath(os.path.join(folder, name))
        if name.endswith(_WEIGHTS) and os.path.isfile(path):
            total.update(f"{name}\0".encode())
            _fingerprint.add_file(total, path)
    return total.hexdigest()


def _plain(value: Any) -> Any:
    """As JSON has it; what JSON has not, by its text."""
    try:
        return json.loads(json.dumps(value, sort_keys=True, default=str))
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _attributes(thing: Any, *names: str) -> dict[str, Any]:
    return {name: _plain(getattr(thing, name, None)) for name in names}


def facts_of(config: Any, row_bytes: int, vllm_config: Any, version: str,
             device: str) -> dict[str, Any]:
    """All facts except the weights. `config` is vLLM's OffloadingConfig."""
    facts = {
        "format": 1, "vllm": version, "device": device, "row_bytes": row_bytes,
        "dtype": config.model.dtype,
        "cache": _attributes(config.cache, "tokens_per_hash", "blocks_per_chunk"),
        "groups": [[group.tokens_per_block, list(group.layer_names)] for group in config.groups],
        "parallel": _attributes(config.parallel, "rank", "world_size", "tp_size", "pp_size",
                                "pcp_size", "dcp_size"),
        **_attributes(config, "worker_kv_bytes_per_block", "kv_cache_layout", "canonical_layout",
                      "replicated_layout"),
    }
    model = getattr(vllm_config, "model_config", None)
    if model is not None:
        facts["model"] = _attributes(model, "revision", "code_revision", "quantization", "dtype",
                                     "model_impl")
        hf = getattr(model, "hf_config", None)
        known = _plain(hf.to_dict()) if hasattr(hf, "to_dict") else {}
        facts["hf_config"] = {name: value for name, value in known.items()
                              if name != "_name_or_path"}
    cache = getattr(vllm_config, "cache_config", None)
    if cache is not None:
        facts["cache_config"] = _attributes(cache, "cache_dtype", "block_size", "sliding_window",
                                            "calculate_kv_scales", "prefix_caching_hash_algo")
    load = getattr(vllm_config, "load_config", None)
    if load is not None:
        facts["load_format"] = str(getattr(load, "load_format", ""))
        if "dummy" in facts["load_format"]:  # Weights made of a seed, whatever the files hold.
            facts["seed"] = _plain(getattr(model, "seed", None))
    return facts


def weights_of(config: Any, vllm_config: Any, model_id: str | None) -> tuple[str, bool]:
    """What identifies the weights, and whether it is their content.

    ``model_id`` is the caller's own name for them; it must change when they do.
    """
    if model_id:
        return "id:" + model_id, True
    model = getattr(vllm_config, "model_config", None)
    revision = getattr(model, "revision", None)
    folder = folder_of(config.model.name, revision)
    if folder is not None:
        try:
            return "files:" + fingerprint(folder), True
        except OSError:
            pass
    return f"name:{config.model.name}@{revision}", False


def digest(facts: dict[str, Any], weights: str, adapter: str | None) -> str:
    """The namespace: 20 hexadecimal digits."""
    text = json.dumps([facts, weights, adapter], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
