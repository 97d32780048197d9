# SPDX-License-Identifier: Apache-2.0
"""vLLM's tiered offloading on the CPU platform, for tests only.

vLLM's own spec refuses to run without a GPU. This one puts plain copies where DMA would be; all
else is vLLM's: the connector, its managers, the memory in /dev/shm. `ZeroedTier` is the control: it
loads as SpillwayTier does and then zeroes the rows, so that a test sees whether the loaded bytes
matter.
"""

import inspect
import time

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from spillway._blocks import memory
from spillway.vllm import SpillwayTier


class ZeroedTier(SpillwayTier):
    def _read(self, names, blocks):
        flags = super()._read(names, blocks)
        for block in blocks:
            for address, size in block:
                memory(address, size)[:] = bytes(size)
        return flags


def rows(spec):
    found = getattr(spec, "chunk_ids", None)
    return spec.block_ids if found is None else found


class MemcpyWorker(OffloadingWorker):
    def __init__(self, kv_caches, blocks_per_chunk, region):
        self.blocks_per_chunk, self.region = blocks_per_chunk, region
        self.refs, self.done = kv_caches.group_data_refs, []
        self.device = [one.tensor.view(torch.int8).view(-1, one.page_size_bytes)
                       for one in kv_caches.tensors]
        make = getattr(region, "create_next_worker_view", None) or region.create_next_view
        self.host = [make(one.page_size_bytes * blocks_per_chunk) for one in kv_caches.tensors]

    def copy(self, job, gpu, chunks, store):
        began, count, block_at, chunk_at = time.monotonic(), 0, 0, 0
        for group, (size, first) in enumerate(zip(gpu.group_sizes, gpu.block_indices)):
            if not size:
                continue
            skip = first % self.blocks_per_chunk
            for at in range(skip, skip + size):
                block = int(gpu.block_ids[block_at + at - skip])
                chunk = int(chunks[chunk_at + at // self.blocks_per_chunk])
                for ref in self.refs[group]:
                    device, host = self.device[ref.tensor_idx], self.host[ref.tensor_idx]
                    page = device.shape[1] * (at % self.blocks_per_chunk)
                    there = device[block, :ref.page_size_bytes]
                    here = host[chunk, page:page + ref.page_size_bytes]
                    (here if store else there).copy_(there if store else here)
                    count += ref.page_size_bytes
            block_at += size
            chunk_at += -(-(skip + size) // self.blocks_per_chunk)
        self.done.append(TransferResult(job, True, count, time.monotonic() - began))
        return True

    def submit_store(self, job_id, src_spec, dst_spec):
        return self.copy(job_id, src_spec, rows(dst_spec), True)

    def submit_load(self, job_id, src_spec, dst_spec, expedited=False):
        return self.copy(job_id, dst_spec, rows(src_spec), False)

    def get_finished(self):
        done, self.done = self.done, []
        return done

    def wait(self, job_ids):
        pass

    def shutdown(self):
        self.host.clear()
        self.device.clear()
        self.region.cleanup()


class CpuTieringSpec(TieringOffloadingSpec):
    def get_worker(self, kv_caches):
        if not self._worker:
            self._worker = self.create_worker(kv_caches)
        return self._worker

    def create_worker(self, kv_caches):
        chunks = getattr(self, "num_chunks", None) or self.num_blocks
        size = self.kv_bytes_per_chunk
        given = dict(engine_id=self._engine_id, num_chunks=chunks, num_blocks=chunks,
                     rank=self.config.parallel.rank, kv_bytes_per_chunk=size,
                     kv_bytes_per_block=size, cpu_page_size=self.cpu_page_size_per_worker)
        wanted = inspect.signature(SharedOffloadRegion.__init__).parameters
        region = SharedOffloadRegion(**{name: one for name, one in given.items()
                                        if name in wanted})
        return MemcpyWorker(kv_caches, self.blocks_per_chunk, region)
