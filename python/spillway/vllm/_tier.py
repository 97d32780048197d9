# SPDX-License-Identifier: Apache-2.0
"""SpillwayTier: Spillway as a secondary tier of vLLM's OffloadingConnector.

Blocks travel GPU <-> vLLM's CPU tier <-> Spillway. vLLM calls a tier on its scheduler's thread, so
nothing here waits on that thread: a lookup that is not answered yet says RETRY, and transfers are
put into queues. What runs where:

  scheduler's thread   all methods of SpillwayTier
  one thread           lookups, hints, step graphs
  one thread           loads only, so that stores never delay a request
  `threads` - 1        stores, and loads when there are any

State that both sides touch: a request's `verdicts` (a dictionary, each access atomic), the queues,
`_submitted` (one writer), `_ended` under its condition, and counts that each thread has of its own.
Until it waits for jobs to end (`drain_jobs`) the scheduler takes no lock that a thread of ours takes. A fault of Spillway is a miss or a block that is not stored.

It is written for the interface of vLLM 0.28 to 0.33; `_spec` registers it with 0.26.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from typing import Any, ClassVar, Collection, Iterable

import vllm
from vllm.logger import init_logger
from vllm.v1.kv_offload import base as offload
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from .. import _blocks
from . import _hints, _space

logger = init_logger(__name__)

LookupResult = offload.LookupResult
HIT, MISS, RETRY = LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY
_RESULT_FIELDS = {field.name for field in dataclasses.fields(JobResult)}

# name: what it counts. All are counters without labels.
METRICS = {
    "vllm:kv_offload_spillway_tokens_restored": "Tokens whose KV Spillway gave back.",
    "vllm:kv_offload_spillway_tokens_stored": "Tokens whose KV Spillway took.",
    "vllm:kv_offload_spillway_tokens_present":
        "Tokens whose KV was to be stored and that Spillway held already.",
    "vllm:kv_offload_spillway_chunks_refused":
        "Chunks that Spillway did not take: pressure, or no room.",
    "vllm:kv_offload_spillway_chunks_lost":
        "Chunks that were found by a lookup and gone when they were loaded.",
    "vllm:kv_offload_spillway_lookups_late":
        "Chunks that counted as missing because no answer came within lookup_wait.",
    "vllm:kv_offload_spillway_faults": "Calls to Spillway that failed; each was a miss.",
}
_RESTORED, _STORED, _PRESENT, _REFUSED, _LOST, _LATE, _FAULTS = METRICS


class _Request:
    """What the tier knows about one request."""

    __slots__ = ("hints", "verdicts", "asked", "deadline", "order", "tails", "parents", "positions",
                 "last", "open")

    def __init__(self, hints: _hints.Hints, positions: Any):
        self.hints = hints
        self.verdicts: dict[bytes, Any] = {}
        self.asked: list[bytes] = []     # Looked up since the last step.
        self.deadline = 0.0              # When lookups without an answer count as misses.
        self.open = 0                    # Batches of lookups without an answer.
        # The chain. Written by `touch` (scheduler), read by the store's thread.
        self.positions = positions       # End token of each key; vLLM has it from 0.31 on.
        self.order: list[bytes] = []     # Keys in the order of the prompt, where that is not known.
        self.tails: dict[bytes, bytes] = {}
        self.parents: dict[bytes, bytes] = {}
        self.last: bytes | None = None   # The furthest chunk known to be in Spillway.


class SpillwayTier(SecondaryTierManager):
    """The tier. Settings are those of ``spillway.Cache`` for a cache in this process, or ``url``,
    ``socket``, ``password`` and ``timeout`` for a running spillwayd; and

    - ``model_id``: your name for the weights, instead of a hash over their files. It must change
      when they do.
    - ``adapter``: anything else that tells this engine's blocks from others'.
    - ``threads``: of transfers, at least 2.
    - ``lookup_wait``: seconds after which a lookup without an answer is a miss.
    """

    medium: ClassVar[Any] = getattr(getattr(offload, "Medium", None), "STORAGE", None)

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str,
                 backpressure_detector: Any = None, *, model_id: str | None = None,
                 adapter: str | None = None, threads: int = 2, lookup_wait: float = 1.0,
                 locality: str | None = None, **settings: Any):
        given = {} if backpressure_detector is None else \
            {"backpressure_detector": backpressure_detector}
        super().__init__(offloading_spec=offloading_spec, primary_kv_view=primary_kv_view,
                         tier_type=tier_type, **given)
        if locality is not None and hasattr(offload, "Locality"):
            self.locality = offload.Locality(locality)
        config = offloading_spec.config
        # An address and no view of our own: vLLM could not unmap its memory under a view.
        self._base = _blocks.address_of(primary_kv_view)
        self._stride = (primary_kv_view.strides or (0,))[0]
        shape = primary_kv_view.shape or (0, 0)
        self._rows, self._row_bytes = shape[0], shape[1] * primary_kv_view.itemsize
        per_block = [group.tokens_per_block for group in config.groups]
        self._chunk_tokens = per_block[0] * config.cache.blocks_per_chunk
        # Chunks of several groups hold the same tokens, which must not count several times.
        self._tokens = max(1, self._chunk_tokens // len(per_block))
        self._lookup_wait = float(lookup_wait)
        # Nothing below may raise: vLLM up to 0.30 leaves its memory in /dev/shm then.
        self._store = _blocks.opener_of(dict(settings), "SpillwayTier")
        self._naming = (config, _space.find_vllm_config(), model_id, adapter)
        self._prefix = b""
        self._requests: dict[str, _Request] = {}
        self._asking: list[_Request] = []   # Requests with keys in `asked`.
        self._waiting: list[_Request] = []  # Requests with lookups in flight.
        self._ready = True  # Whether the store is believed to answer, as of this step.
        # Each thread counts for itself: under a lock the scheduler would wait for a thread that
        # holds it and has lost its core.
        self._own = threading.local()
        self._counts: list[dict[str, int]] = []
        self._told = dict.fromkeys(METRICS, 0)
        self._counted = False  # Something may have been counted since the last get_stats.
        self._told_faults = 0
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._loads: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stores: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # A token for each job, on which the threads wait. Queues in C: a lock of Python's might be
        # held by a thread that has lost its core.
        self._work: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._load_work: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._submitted = 0  # Jobs; written by the scheduler's thread only.
        self._ended = 0      # Those with a result; under _idle.
        self._idle = threading.Condition()
        self._opened = threading.Event()
        self._stopping = False
        self._threads = [threading.Thread(target=self._run_lookups, name="spillway_lookup",
                                          daemon=True)]
        self._threads.append(threading.Thread(target=self._run_transfers, args=(True,),
                                              name="spillway_load", daemon=True))
        for at in range(max(1, int(threads) - 1)):
            self._threads.append(threading.Thread(target=self._run_transfers, args=(False,),
                                                  name=f"spillway_store_{at}", daemon=True))
        for thread in self._threads:
            thread.start()

    # --- opening, on the lookup thread ---

    def _begin(self) -> None:
        """Finds out the namespace and opens the store: both may take seconds."""
        try:
            config, vllm_config, model_id, adapter = self._naming
            facts = _space.facts_of(config, self._row_bytes, vllm_config, vllm.__version__,
                                    _device())
            weights, by_content = _space.weights_of(config, vllm_config, model_id)
            name = _space.digest(facts, weights, adapter)
            self._prefix = f"vllm:{name}:".encode()
            if vllm_config is None or not by_content:
                logger.warning("SpillwayTier knows this model by its name only (%s): give model_id "
                               "another value whenever its weights change", config.model.name)
            logger.info("SpillwayTier: blocks of %d bytes and %d tokens in namespace %s (%s)",
                        self._row_bytes, self._chunk_tokens, name, weights[:40])
            if self._store.open():
                logger.info("SpillwayTier is open")
        except Exception as error:
            self._store.broken = True  # Without a namespace nothing may be shared.
            self._store.fault(error)
        finally:
            self._naming = (None, None, None, None)
            self._opened.set()

    def _names(self, keys: Iterable[bytes]) -> list[bytes]:
        prefix = self._prefix
        return [prefix + key.hex().encode() for key in keys]

    # --- the scheduler's thread ---

    def on_new_request(self, req_context: Any) -> Any:
        """Reads the request's hints."""
        self._ready = self._store.ready
        self._request(req_context)
        return offload.RequestOffloadingContext()

    def _request(self, req_context: Any) -> _Request:
        request = self._requests.get(req_context.req_id)
        if request is None:
            hints = _hints.read(req_context.kv_transfer_params,
                                getattr(req_context, "kv_hints", None))
            request = _Request(hints, getattr(req_context, "_offload_key_positions", None))
            self._requests[req_context.req_id] = request
            if hints.graph or (hints.run and hints.step):
                self._asks.put(("follow", request, None))
        return request

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """HIT or MISS if it is known; RETRY while the answer is on its way."""
        request = self._requests.get(req_context.req_id) or self._request(req_context)
        found = request.verdicts.get(key)
        if found is not None:
            return found
        if not self._ready:
            return MISS
        request.verdicts[key] = RETRY
        if not request.asked:
            self._asking.append(request)
        request.asked.append(key)
        return RETRY

    def on_schedule_end(self, context: Any) -> None:
        """Sends this step's lookups; those without an answer for too long become misses."""
        self._ready = self._store.ready
        if not self._asking and not self._waiting:
            return
        now = time.monotonic()
        for request in self._asking:
            request.deadline = now + self._lookup_wait
            request.open += 1
            self._asks.put(("look", request, request.asked))
            request.asked = []
            self._waiting.append(request)
        self._asking.clear()
        self._waiting = [request for request in self._waiting if not self._answered(request, now)]

    def _answered(self, request: _Request, now: float) -> bool:
        if request.open <= 0:
            return True
        if now < request.deadline:
            return False
        for key, verdict in list(request.verdicts.items()):
            if verdict is RETRY:
                request.verdicts[key] = MISS
                self._count(_LATE, 1)
        return True

    def submit_store(self, job_metadata: Any) -> None:
        """Puts a store into its queue."""
        self._submit(self._stores, job_metadata)

    def submit_load(self, job_metadata: Any) -> None:
        """Puts a load into its queue."""
        self._submit(self._loads, job_metadata)

    def _submit(self, jobs: Any, job: Any) -> None:
        request = self._requests.get(job.req_context.req_id) or self._request(job.req_context)
        self._submitted += 1
        jobs.put((job, request))
        # vLLM pins the rows of a job, so its CPU tier bounds these queues.
        self._work.put(None)
        if jobs is self._loads:
            self._load_work.put(None)

    def get_finished_jobs(self) -> Iterable[Any]:
        """Results of jobs that have ended."""
        results = []
        while not self._finished.empty():  # This thread alone takes from it.
            results.append(self._finished.get_nowait())
        return results

    def has_pending_work(self) -> bool:
        """Whether jobs are in flight."""
        return self._submitted != self._ended or not self._finished.empty()

    def touch(self, keys: Collection[bytes], req_context: Any) -> None:
        """The keys of a prompt, in order."""
        request = self._requests.get(req_context.req_id)
        if request is not None and request.positions is None:
            request.order = list(keys)  # vLLM up to 0.30 says a prompt's order here only.

    def on_request_finished(self, req_context: Any) -> None:
        """Forgets the request; its hints go to its last chunk."""
        request = self._requests.pop(req_context.req_id, None)
        if request is not None:
            self._asks.put(("finish", request, None))

    def drain_jobs(self) -> None:
        """Waits until no job is in flight."""
        with self._idle:
            self._idle.wait_for(lambda: self._submitted == self._ended)

    def shutdown(self) -> None:
        """Ends what was submitted, then closes. No thread touches vLLM's memory afterwards."""
        self.drain_jobs()
        self._stopping = True
        self._asks.put(("stop", None, None))
        for _ in self._threads:
            self._work.put(None)
            self._load_work.put(None)
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                raise RuntimeError(f"{thread.name} does not end: Spillway's disk or daemon hangs")
        self._store.close()
        if self._store.faults:
            logger.warning("SpillwayTier: %d calls to Spillway failed, each a miss; the last: %s",
                           self._store.faults, self._store.last_error)

    # --- metrics ---

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """The counters of METRICS, for vLLM's /metrics."""
        return {name: offload.OffloadingCounterMetadata(documentation=words)
                for name, words in METRICS.items()}

    def get_stats(self) -> Any:
        """What was counted since the last call."""
        faults = self._store.faults
        if faults != self._told_faults:
            self._count(_FAULTS, faults - self._told_faults)
            self._told_faults = faults
        if not self._counted:
            return None
        self._counted = False  # Before the sums: what is counted meanwhile is told next time.
        totals = {name: sum(counts[name] for counts in list(self._counts)) for name in METRICS}
        more = {name: total - self._told[name] for name, total in totals.items()
                if total != self._told[name]}
        self._told = totals
        if not more:
            return None
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
            OffloadingConnectorStats)
        stats = OffloadingConnectorStats()
        for name, count in more.items():
            stats.increase_counter(name, count)
        return stats

    def _count(self, name: str, more: int) -> None:
        counts = getattr(self._own, "counts", None)
        if counts is None:
            counts = self._own.counts = dict.fromkeys(METRICS, 0)
            self._counts.append(counts)
        counts[name] += more
        self._counted = True

    # --- the lookup thread ---

    def _run_lookups(self) -> None:
        self._begin()
        while True:
            what, request, keys = self._asks.get()
            if what == "stop":
                return
            try:
                if what == "look":
                    self._look(request, keys)
                elif what == "follow":
                    hints = request.hints
                    self._store.follow(hints.graph, hints.run, hints.step)
                else:
                    self._finish(request)
            except Exception as error:
                self._store.fault(error)

    def _look(self, request: _Request, keys: list[bytes]) -> None:
        found = [False] * len(keys)
        try:
            found = self._store.present(self._names(keys))
        finally:
            # Before `open` is written: the scheduler must not find a lookup answered that is not.
            request.verdicts.update(zip(keys, (HIT if one else MISS for one in found)))
            request.open -= 1

    def _finish(self, request: _Request) -> None:
        """The request is over: its last chunk says when its context is used next."""
        hints = request.hints
        if request.last is not None and (hints.hint or hints.eta or hints.waits_for):
            self._store.touch([request.last], hints.hint, hints.eta, hints.waits_for)

    # --- the transfer threads ---

    def _run_transfers(self, loads_only: bool) -> None:
        work = self._load_work if loads_only else self._work
        self._opened.wait()
        while True:
            work.get()
            item = _take(self._loads)
            run = self._load
            if item is None and not loads_only:
                item, run = _take(self._stores), self._save
            if item is None:  # Another thread has it, or there is nothing more.
                if self._stopping:
                    return
                continue
            job, request = item
            began, good = time.monotonic(), []
            try:
                good = run(job, request)
            except Exception as error:
                self._store.fault(error)
            finally:
                self._end(job, good, time.monotonic() - began)

    def _end(self, job: Any, good: list[bytes], seconds: float) -> None:
        whole = len(good) == len(job.keys)
        about = {"transfer_time": seconds, "transfer_bytes": len(good) * self._row_bytes}
        if job.is_promotion and not whole:
            about["successful_keys"] = tuple(good) or None
        self._finished.put(JobResult(
            job_id=job.job_id, success=whole,
            **{name: value for name, value in about.items() if name in _RESULT_FIELDS}))
        with self._idle:
            self._ended += 1
            self._idle.notify_all()

    def _blocks_of(self, rows: Iterable[Any]) -> list[list[tuple[int, int]]]:
        base, stride, size = self._base, self._stride, self._row_bytes
        return [[(base + int(row) * stride, size)] for row in rows]

    def _load(self, job: Any, request: _Request) -> list[bytes]:
        keys, blocks = list(job.keys), self._blocks_of(_rows(job))
        flags = self._read(self._names(keys), blocks)
        good = [key for key, flag in zip(keys, flags) if flag]
        if len(good) < len(keys):
            # Not asked for again by this request: vLLM would promote it for ever.
            request.verdicts.update((key, MISS) for key, flag in zip(keys, flags) if not flag)
            self._count(_LOST, len(keys) - len(good))
        self._count(_RESTORED, len(good) * self._tokens)
        if good:
            request.last = self._names(good[-1:])[0]
        return good

    def _read(self, names: list[bytes], blocks: list[Any]) -> list[bool]:
        return self._store.read(names, blocks)

    def _save(self, job: Any, request: _Request) -> list[bytes]:
        keys = list(job.keys)
        parents = self._parents(request, keys)
        pairs = sorted(zip(keys, self._blocks_of(_rows(job))),
                       key=lambda pair: parents.get(pair[0], (0, b""))[0])
        names = self._names(key for key, _ in pairs)
        known = self._store.present(names)
        new = [at for at, there in enumerate(known) if not there]
        hints = request.hints
        options = []
        for at in new:
            before = parents.get(pairs[at][0], (0, b""))[1]
            options.append(_blocks.Options(
                self._tokens, hints.owner, self._names([before])[0] if before else None, hints.ttl,
                None, hints.eta, hints.waits_for))
        taken = self._store.write([names[at] for at in new], [pairs[at][1] for at in new], options)
        good = [pair[0] for pair, there in zip(pairs, known) if there]
        good += [pairs[at][0] for at, flag in zip(new, taken) if flag]
        self._count(_PRESENT, (len(keys) - len(new)) * self._tokens)
        self._count(_STORED, sum(taken) * self._tokens)
        self._count(_REFUSED, len(new) - sum(taken))
        if good:
            request.last = names[-1] if len(good) == len(keys) else request.last
        return good

    def _parents(self, request: _Request, keys: list[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """For each key its place in the prompt, and the key before it in its group.

        Only a chain that says so is evicted from its end. What is not known has no parent.
        """
        positions = request.positions
        if positions is not None:
            ends = {key: positions[key] for key in list(positions)}
            wanted = set(keys)
            order = sorted((key for key in ends if ends[key] % self._chunk_tokens == 0
                            or key in wanted), key=ends.__getitem__)
        else:
            order = request.order if set(keys) <= set(request.order) else keys
        found: dict[bytes, tuple[int, bytes]] = {}
        before = dict(request.tails) if positions is None and order is keys else {}
        for at, key in enumerate(order):
            group = key[-4:]
            found[key] = (at, before.get(group, b""))
            before[group] = key
        if positions is None:
            request.tails = before
        return found


def _take(jobs: Any) -> Any:
    try:
        return jobs.get_nowait()
    except queue.Empty:
        return None


def _rows(job: Any) -> Any:
    """The rows of vLLM's CPU tier; called blocks until 0.29."""
    rows = getattr(job, "chunk_ids", None)
    return job.block_ids if rows is None else rows


def _device() -> str:
    from vllm.platforms import current_platform
    return str(getattr(current_platform, "device_type", "unknown"))
