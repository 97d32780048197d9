# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers (v5): saves KV caches, finds them by prefix, and restores them bit by
bit.

>>> import spillway.transformers as st
>>> st.attach(model, cache)            # generate() now restores what it knows, and saves
>>> st.save(kv, "agent:7", cache, model, ids)      # or by hand
>>> kv, tokens = st.load("agent:7", model, cache)

Supports ``DynamicCache`` with full and sliding-window layers. What cannot be restored exactly
(quantized, static, linear or recurrent layers ...) is refused with a reason.
"""

from __future__ import annotations

import copy
import functools
import json
import sys
import warnings
import weakref
from typing import Any, NamedTuple

from ._cache import Cache, cache_of
from ._values import key_bytes, key_name
from .errors import CannotRestore, InvalidArgument, NotInstalled

try:
    import torch
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
except ImportError as missing:
    raise NotInstalled("spillway.transformers needs torch and transformers 5, which can't be "
                       f"imported ({missing}); pip install 'transformers>=5'") from None

from . import _kv as kv

__all__ = ["Attached", "Loaded", "attach", "longest_prefix", "load", "load_prefix", "save",
           "save_prefix"]

CHUNK = 256
_default: dict[str, Cache] = {}


class Loaded(NamedTuple):
    """A restored cache, and the number of tokens in it."""

    cache: Any
    tokens: int


# --- what can be restored ---


_spaces: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = weakref.WeakKeyDictionary()


def _space(model: Any) -> str:
    """The namespace of the model's contexts: equal only if the weights are meant to be equal."""
    name = getattr(model, "spillway_name", None)
    known = _spaces.get(model)
    if known is None or known[0] != name:
        known = _spaces[model] = name, _describe_model(model)
    return known[1]


def _describe_model(model: Any) -> str:
    config = model.config
    facts = {name: value for name, value in sorted(config.to_dict().items())
             if not name.startswith("_") and name not in ("transformers_version", "dtype",
                                                          "torch_dtype", "use_cache")}
    name = getattr(model, "spillway_name", None) or config._name_or_path or ""
    return json.dumps([type(model).__name__, name, facts], sort_keys=True, default=str)


def _check_layer(at: int, layer: Any) -> int:
    """The window of a layer that can be restored; 0: all tokens."""
    kind = type(layer)
    if kind is DynamicLayer:
        return 0
    if kind is DynamicSlidingWindowLayer:
        if getattr(layer, "record_past", False):
            raise CannotRestore(f"layer {at} records its past (assisted decoding); what a window "
                                "will be cut to is not known yet")
        return layer.sliding_window
    raise CannotRestore(
        f"layer {at} is a {kind.__name__}: only DynamicLayer and DynamicSlidingWindowLayer can be "
        "restored exactly" + _WHY.get(kind.__name__, ""))


_WHY = {
    "StaticLayer": "; a static cache's tensors are marked by address",
    "StaticSlidingWindowLayer": "; a static cache's tensors are marked by address",
    "LinearAttentionLayer": "; it keeps a recurrent state, not tokens",
}


def _layout(cache: Any, chunk: int) -> tuple[kv.Layout, int]:
    if not isinstance(cache, DynamicCache):
        raise CannotRestore(f"a {type(cache).__name__} can't be saved: a DynamicCache can")
    if getattr(cache, "offloading", False):
        raise CannotRestore("DynamicCache(offloading=True) moves its layers itself; without it "
                            "they can be saved")
    shapes, lengths = [], set()
    layers: list[Any] = list(cache.layers)
    for at, layer in enumerate(layers):
        window = _check_layer(at, layer)
        if not layer.is_initialized or layer.keys is None or layer.keys.numel() == 0:
            raise CannotRestore(f"layer {at} is empty: run the model before its cache is saved")
        keys, values = layer.keys, layer.values
        if keys.dim() != 4 or keys.shape[:3] != values.shape[:3] or keys.dtype != values.dtype:
            raise CannotRestore(f"layer {at} holds {tuple(keys.shape)} and {tuple(values.shape)}: "
                                "[batch, head, token, dim] is known")
        shapes.append(kv.LayerShape(window, keys.shape[0], keys.shape[1], keys.shape[3],
                                    values.shape[3], str(keys.dtype).removeprefix("torch.")))
        length = layer.get_seq_length()
        lengths.add(length)
        kept = min(length, window - 1) if window else length
        if keys.shape[2] != kept:
            raise CannotRestore(f"layer {at} holds {keys.shape[2]} tokens where {kept} are expected"
                                " after a forward pass")
    if len(lengths) != 1:
        raise CannotRestore(f"layers disagree on their length: {sorted(lengths)}")
    devices = {layer.keys.device for layer in layers}
    if len(devices) != 1:
        raise CannotRestore(f"layers lie on {len(devices)} devices: one is known")
    return kv.Layout(tuple(shapes), chunk), lengths.pop()


def _tensors(cache: Any) -> list[tuple[Any, Any]]:
    """Keys and values with the tokens contiguous; copied if they are not."""
    made = []
    for layer in cache.layers:
        pair = []
        for tensor in (layer.keys, layer.values):
            dense = tensor.stride(3) == 1 and tensor.stride(2) == tensor.shape[3]
            pair.append(tensor.detach() if dense else tensor.detach().contiguous())
        made.append((pair[0], pair[1]))
    return made


# Keys are hashes over ids as signed 64-bit numbers; other ids do not fit.
_ID_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16,
             torch.uint32)


def _ids(ids: Any) -> torch.Tensor:
    wrong = "ids must be token ids: a tensor or a list of whole numbers under 2^63"
    if isinstance(ids, (list, tuple)):
        try:
            ids = torch.tensor(ids)
        except (OverflowError, RuntimeError, TypeError, ValueError) as why:
            raise InvalidArgument(f"{wrong} ({why})") from None
    if not isinstance(ids, torch.Tensor) or ids.dtype not in _ID_TYPES:
        raise InvalidArgument(wrong)
    ids = ids[None] if ids.dim() == 1 else ids
    if ids.dim() != 2:
        raise InvalidArgument(f"ids have shape {tuple(ids.shape)}: [batch, token] is known")
    return ids.detach().cpu()


def _cache_or_default(cache: Cache | None) -> Cache:
    if cache is not None:
        return cache_of(cache)
    found = _default.get("cache")
    if found is None or found.closed:
        raise InvalidArgument("which cache? Pass one, or attach(model, cache) first")
    return found


# --- save ---


def save_prefix(past: Any, model: Any, ids: Any, cache: Cache | None = None, *,
                chunk: int = CHUNK, agent: str | None = None) -> int:
    """Saves what a DynamicCache holds of ``ids``, so that any prompt with the same beginning finds
    it.

    Returns how many tokens can be restored now: fewer than given if the cache refused a part.
    Chunks that are present already are not written again.
    """
    store = _cache_or_default(cache)
    layout, length = _layout(past, chunk)
    tokens = _ids(ids)
    if tokens.shape[1] < length or tokens.shape[0] != layout.layers[0].batch:
        raise InvalidArgument(f"the cache holds {length} tokens of {layout.layers[0].batch} rows, "
                              f"ids {tuple(tokens.shape)}")
    names = kv.PromptNames(_space(model), layout, tokens[:, :length])
    return _store(store, past, layout, names, length, agent)


def _store(store: Cache, past: Any, layout: kv.Layout, names: kv.PromptNames, length: int,
           agent: str | None) -> int:
    tensors = _tensors(past)
    device = tensors[0][0].device
    mover = kv.Mover(store, device)
    whole = length // layout.chunk if layout.full else 0
    keys = [names.chunk_key(at) for at in range(whole)]
    known = store.match(keys)
    who = {"agent": agent.encode()} if agent else {}
    values = kv.Grid(layout.full, tensors, mover.place).chunks(known, whole, layout.chunk)
    for at, value in enumerate(values, known):
        parent = {"parent": keys[at - 1]} if at else {}
        mover.put(keys[at], value, tokens=layout.chunk, **parent, **who)
    rest = length - whole * layout.chunk
    if rest or layout.windowed:
        parent = {"parent": keys[whole - 1]} if whole else {}
        mover.put(names.tail_key(length), _tail(layout, tensors, whole, length, mover.place),
                  tokens=rest, **parent, **who)
    done = mover.run()
    stored = known
    for at in range(known, whole):
        if not done[at - known]:
            break
        stored += 1
    if stored == whole and (not (rest or layout.windowed) or done[-1]):
        return length
    return 0 if layout.windowed else stored * layout.chunk


def _tail(layout: kv.Layout, tensors: Any, whole: int, length: int, place: int) -> Any:
    """The tokens after the last whole chunk, and all of the windows."""
    return kv.Grid(list(range(len(layout.layers))), tensors, place).spans(
        lambda layer: (0, layout.kept(layer, length)) if layout.layers[layer].window
        else (whole * layout.chunk, length))


def save(past: Any, key: str | bytes, cache: Cache | None = None, model: Any = None,
         ids: Any = None, *, chunk: int = CHUNK, agent: str | None = None) -> bool:
    """Saves a DynamicCache under a key of yours. False: the cache refuses it now.

    With ``model`` and ``ids`` (the tokens it holds) its chunks are shared with all prompts that
    have the same beginning; without them they belong to this key only.
    """
    store = _cache_or_default(cache)
    layout, length = _layout(past, chunk)
    name = key_bytes(key)
    if ids is not None and model is not None:
        tokens = _ids(ids)[:, :length]
        space = _space(model)
    else:  # Positions stand for tokens; no other prompt has such names.
        tokens = torch.arange(length).repeat(layout.layers[0].batch, 1)
        space = "key:" + repr(name)
    if tokens.shape != (layout.layers[0].batch, length):
        raise InvalidArgument(f"the cache holds {length} tokens of {layout.layers[0].batch} rows, "
                              f"ids {tuple(tokens.shape)}")
    names = kv.PromptNames(space, layout, tokens)
    if _store(store, past, layout, names, length, agent) != length:
        return False
    whole = length // layout.chunk if layout.full else 0
    rest = length - whole * layout.chunk
    record = {"layout": layout.to_json(), "tokens": length,
              "model": _space(model) if model is not None else None,
              "chunks": [names.chunk_key(at).decode() for at in range(whole)],
              "tail": names.tail_key(length).decode() if rest or layout.windowed else None}
    return store.set(name, json.dumps(record).encode(), meta=b"kv-record", agent=agent)


# --- load ---


_templates: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _empty(model: Any) -> Any:
    """An empty DynamicCache for the model. Made once, since reading a config takes milliseconds."""
    template = _templates.get(model)
    if template is None:
        template = _templates[model] = DynamicCache(config=model.config)
    made = copy.copy(template)
    made.layers = [copy.copy(layer) for layer in template.layers]
    return made


def _fill(layer: Any, keys: Any, values: Any, length: int) -> None:
    """The state after an update with these: what lazy_initialization sets, without its tensors."""
    if type(layer) is DynamicLayer:
        layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
    else:
        layer.lazy_initialization(keys, values)
        layer.cumulative_length = length
    layer.keys, layer.values = keys, values


def _fresh(model: Any, layout: kv.Layout) -> Any:
    """An empty cache; it must be of the kind that was saved."""
    made = _empty(model)
    if len(made.layers) != len(layout.layers):
        raise CannotRestore(f"the model has {len(made.layers)} cached layers, what was saved "
                            f"{len(layout.layers)}")
    for at, layer in enumerate(made.layers):
        if _check_layer(at, layer) != layout.layers[at].window:
            raise CannotRestore(f"layer {at} keeps a window of {_check_layer(at, layer)} tokens in "
                                f"the model, {layout.layers[at].window} where it was saved")
    return made


def _read(store: Cache, model: Any, layout: kv.Layout, chunks: list[bytes], tail: bytes | None,
          length: int) -> Any | None:
    """The cache after ``length`` tokens, or None if some of it has been evicted meanwhile."""
    made = _fresh(model, layout)
    device = model.device
    tensors: list[Any] = []
    for at, shape in enumerate(layout.layers):
        kept = layout.kept(at, length)
        dtype = kv._DTYPES[shape.dtype]
        tensors.append(tuple(torch.empty((shape.batch, shape.heads, kept, dim), dtype=dtype,
                                         device=device) for dim in (shape.k_dim, shape.v_dim)))
    mover = kv.Mover(store, device)
    values = kv.Grid(layout.full, tensors, mover.place).chunks(0, len(chunks), layout.chunk)
    mover.get_chunks(chunks, values)
    if tail is not None:
        mover.get(tail, _tail(layout, tensors, len(chunks), length, mover.place))
    if not all(mover.run()):
        return None
    for layer, (keys, value) in zip(made.layers, tensors):
        _fill(layer, keys, value, length)
    return made


def load(key: str | bytes, model: Any, cache: Cache | None = None) -> Loaded | None:
    """The cache saved under a key, for this model on its device. None: missing or incomplete.

    Refused (``CannotRestore``) if it was saved from a model of another kind.
    """
    store = _cache_or_default(cache)
    lease = store.lease(key)
    if lease is None:
        return None
    with lease:
        if lease.meta != b"kv-record":
            raise InvalidArgument(f"{key_name(key_bytes(key))!r} was not saved by "
                                  "spillway.transformers.save")
        record = json.loads(bytes(lease))
    if record["model"] is not None and record["model"] != _space(model):
        raise CannotRestore("it was saved from another model, or from one with another config")
    layout = kv.Layout.from_json(record["layout"])
    _check_dtype(model, layout)
    chunks = [name.encode() for name in record["chunks"]]
    tail = record["tail"].encode() if record["tail"] else None
    made = _read(store, model, layout, chunks, tail, record["tokens"])
    return None if made is None else Loaded(made, record["tokens"])


def _check_dtype(model: Any, layout: kv.Layout) -> None:
    have = str(model.dtype).removeprefix("torch.")
    saved = {layer.dtype for layer in layout.layers}
    if saved != {have}:
        raise CannotRestore(f"it was saved in {', '.join(sorted(saved))}, and the model runs in "
                            f"{have}")


_layouts: weakref.WeakKeyDictionary[Any, dict[Any, kv.Layout]] = weakref.WeakKeyDictionary()


def _model_layout(model: Any, batch: int, chunk: int) -> kv.Layout:
    """The layout of a save of this model; known before the model has run."""
    known = _layouts.setdefault(model, {})
    kind = (batch, chunk, model.dtype)
    if kind not in known:
        known[kind] = _make_layout(model, batch, chunk)
    return known[kind]


def _make_layout(model: Any, batch: int, chunk: int) -> kv.Layout:
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dtype = str(model.dtype).removeprefix("torch.")
    fresh = _empty(model)
    return kv.Layout(tuple(kv.LayerShape(_check_layer(at, layer), batch, heads, dim, dim, dtype)
                           for at, layer in enumerate(fresh.layers)), chunk)


def _find(store: Cache, layout: kv.Layout,
          names: kv.PromptNames) -> tuple[int, list[bytes], bytes | None]:
    """The longest prefix that is present: tokens, keys of its whole chunks, tail."""
    total = names.tokens
    whole = total // layout.chunk
    keys = [names.chunk_key(at) for at in range(whole)] if layout.full else []
    run = store.match(keys) if layout.full else whole
    best = 0 if layout.windowed else run * layout.chunk
    # A tail continues its chunks; a model with windows needs one.
    for at in range(run, -1, -1):
        start, end = at * layout.chunk, min(total, (at + 1) * layout.chunk - 1)
        candidates = [pair for pair in names.tails_between(start, end) if pair[0] > best]
        there = store.contains_many([key for _, key in candidates])
        for (tokens, key), present in zip(candidates, there):
            if present:
                return tokens, keys[:at], key
        if not layout.windowed:
            break
    return best, keys[:best // layout.chunk], None


def longest_prefix(ids: Any, model: Any, cache: Cache | None = None, *, chunk: int = CHUNK) -> int:
    """How many of these tokens could be restored now."""
    tokens = _ids(ids)
    layout = _model_layout(model, tokens.shape[0], chunk)
    return _find(_cache_or_default(cache), layout, kv.PromptNames(_space(model), layout, tokens))[0]


# The cost of attention relative to the matrices of a layer, per operation: over a prompt from its
# beginning, and after a restored prefix, where torch's scaled_dot_product_attention needs a mask
# and its fast kernels accept none. Measured on an H200 (docs/gpu-results.md).
_FROM_THE_BEGINNING, _BEHIND_A_PREFIX = 0.4, 4.0
_costs: weakref.WeakKeyDictionary[Any, tuple[float, float]] = weakref.WeakKeyDictionary()


def _is_faster(known: int, total: int, a_token: float, a_pair: float) -> bool:
    """Whether computing the rest after ``known`` tokens takes less time than computing all of them.
    """
    left = total - known
    return left * a_token + left * total * a_pair * _BEHIND_A_PREFIX < \
        total * a_token + total * total * a_pair * _FROM_THE_BEGINNING


def _model_costs(model: Any) -> tuple[float, float]:
    """Operations for each token, and for each earlier token it attends to."""
    known = _costs.get(model)
    if known is None:
        config = model.config.get_text_config(decoder=True)
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        known = _costs[model] = (
            2.0 * model.num_parameters(exclude_embeddings=True),
            4.0 * config.num_attention_heads * dim * config.num_hidden_layers)
    return known


def load_prefix(ids: Any, model: Any, cache: Cache | None = None, *, chunk: int = CHUNK,
                when_faster: bool = False) -> Loaded:
    """The longest known prefix of these tokens, restored; 0 tokens and an empty cache if there is
    none.

    With ``when_faster`` also if the prefix is so short that the model would take longer after it
    than from the beginning: torch's attention is several times slower there (it needs a mask).
    """
    store = _cache_or_default(cache)
    tokens = _ids(ids)
    layout = _model_layout(model, tokens.shape[0], chunk)
    names = kv.PromptNames(_space(model), layout, tokens)
    length, chunks, tail = _find(store, layout, names)
    if when_faster and not _is_faster(length, tokens.shape[1] + 1, *_model_costs(model)):
        length = 0
    if length:
        made = _read(store, model, layout, chunks, tail, length)
        if made is not None:
            return Loaded(made, length)
    return Loaded(_empty(model), 0)


# --- attach ---


class Attached:
    """What attach() did to a model's generate; ``detach()`` undoes it.

    A fault of the cache never costs the model's answer: ``generate`` then runs as if nothing were
    attached. ``last_error`` is the latest such fault (None: there was none), ``faults`` counts
    them, and the first one is a ``RuntimeWarning``.
    """

    def __init__(self, model: Any, cache: Cache, chunk: int, agent: str | None,
                 when_faster: bool):
        self.cache, self.chunk, self.agent = cache, chunk, agent
        self.when_faster = when_faster
        self.restored_tokens = self.saved = self.passed_by = 0
        self.last_restored = 0
        self.last_reason = ""
        self.last_error: Exception | None = None
        self.faults = 0
        self._model = weakref.ref(model)
        self._generate = model.generate
        attached = self

        @functools.wraps(self._generate)
        def generate(*args: Any, **kwargs: Any) -> Any:
            return attached._call(*args, **kwargs)

        model.generate = generate
        model.spillway = self

    def detach(self) -> None:
        """Restores the model's own generate."""
        model = self._model()
        if model is not None and getattr(model, "spillway", None) is self:
            del model.spillway
            del model.generate

    def _why_not(self, ids: Any, kwargs: dict[str, Any]) -> str:
        """Why a call is passed on unchanged; "": it need not be."""
        model: Any = self._model()
        config = kwargs.get("generation_config") or model.generation_config
        asked = {name: kwargs.get(name, getattr(config, name, None))
                 for name in ("num_beams", "num_return_sequences", "cache_implementation",
                              "use_cache", "prompt_lookup_num_tokens", "max_cache_len")}
        if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
            return "there are no input_ids"
        if kwargs.get("past_key_values") is not None:
            return "past_key_values is given"
        if (asked["num_beams"] or 1) > 1 or (asked["num_return_sequences"] or 1) > 1:
            return "rows are multiplied (beams, several sequences)"
        if asked["cache_implementation"] not in (None, "dynamic") or asked["use_cache"] is False:
            return f"cache_implementation={asked['cache_implementation']}, " \
                   f"use_cache={asked['use_cache']}"
        if kwargs.get("assistant_model") is not None or asked["prompt_lookup_num_tokens"]:
            return "decoding is assisted"
        mask = kwargs.get("attention_mask")
        if mask is not None and not bool(torch.as_tensor(mask).all()):
            return "rows are padded"
        if ids.shape[1] < 2:
            return "the prompt has one token"
        return ""

    def _fault(self, what: str, error: Exception) -> str:
        """Records that the cache failed; warns the first time."""
        first, self.faults = self.faults == 0, self.faults + 1
        # Frames refer to tensors, possibly a whole context.
        self.last_error = error.with_traceback(None)
        error.__context__ = error.__cause__ = None
        words = f"{what} failed: {type(error).__name__}: {error}"
        if first:
            text = f"spillway: {words}; the model answers without the cache (said once; " \
                   "model.spillway.last_error has the latest)"
            try:
                warnings.warn(text, RuntimeWarning, stacklevel=5)
            # Filters may turn warnings into errors; the model's answer is more important.
            except Warning:
                print(text, file=sys.stderr)
        return words

    def _restore(self, ids: Any, kwargs: dict[str, Any]) -> Any:
        """The cache that generate begins with. None: the call is passed on unchanged."""
        self.last_reason, self.last_restored = "", 0
        try:
            self.last_reason = self._why_not(ids, kwargs)
            if self.last_reason:
                return None
            # At least one token must be run to get logits.
            past, self.last_restored = load_prefix(ids[:, :-1], self._model(), self.cache,
                                                   chunk=self.chunk, when_faster=self.when_faster)
        except CannotRestore as why:
            self.last_reason = str(why)
            return None
        except Exception as error:
            self.last_reason = self._fault("restoring a prefix", error)
            return None
        self.restored_tokens += self.last_restored
        return past

    def _save(self, past: Any, result: Any) -> None:
        try:
            rows = result if isinstance(result, torch.Tensor) else result.sequences
            held = past.get_seq_length()
            if held and rows.shape[1] >= held:
                save_prefix(past, self._model(), rows[:, :held], self.cache, chunk=self.chunk,
                            agent=self.agent)
                self.saved += 1
        except Exception as error:
            self._fault("saving the context", error)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        ids: Any = args[0] if args else kwargs.get("input_ids", kwargs.get("inputs"))
        past = self._restore(ids, kwargs)
        if past is None:
            self.passed_by += 1
            return self._generate(*args, **kwargs)
        result = self._generate(*args, **{**kwargs, "past_key_values": past})
        self._save(past, result)
        return result


def attach(model: Any, cache: Cache, *, chunk: int = CHUNK, agent: str | None = None,
           when_faster: bool | None = None) -> Attached:
    """From now on ``model.generate`` restores the longest known prefix and saves afterwards.

    Calls that cannot be served exactly (beams, padding, a cache of their own ...) are passed on
    unchanged; ``Attached.last_reason`` says why. If the cache fails (it was closed, is too small
    ...) the model answers anyway; ``Attached.last_error`` is the error. ``when_faster``: a prefix
    is not used where computing the rest after it would take longer than computing everything (see
    ``load_prefix``); the default on CUDA with torch's scaled_dot_product_attention.
    """
    cache_of(cache)
    _model_layout(model, 1, chunk)  # Refused here if its layers cannot be restored.
    _default["cache"] = cache
    if when_faster is None:
        when_faster = model.device.type == "cuda" and \
            getattr(model.config, "_attn_implementation", None) == "sdpa"
    return Attached(model, cache, chunk, agent, when_faster)
