#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/engines/signatures.py WHEEL...: whether Spillway fits the interfaces of a vLLM that can't
run here.

Reads the wheel's sources and ours and imports neither: each abstract method of SecondaryTierManager
and CachePolicy must be there and take the arguments vLLM gives, the fields we read must exist, and
the tier's constructor must take what the factory passes. `pip download --no-deps vllm==0.33.0`
fetches a wheel.
"""

import ast
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TIER = "vllm/v1/kv_offload/tiering/base.py"
POLICY = "vllm/v1/kv_offload/cpu/policies/base.py"


def classes(text):
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


def methods(node):
    return {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}


def is_abstract(method):
    return any("abstractmethod" in ast.unparse(mark) for mark in method.decorator_list)


def takes(ours, count):
    """Whether `ours` can be called with so many positional arguments."""
    given = ours.args
    names = [*given.posonlyargs, *given.args]
    least = len(names) - len(given.defaults)
    return least <= count and (count <= len(names) or given.vararg is not None)


def fields(node):
    return {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}


def compare(what, theirs, ours):
    wrong = []
    own, base = methods(ours), methods(theirs)
    for name, method in base.items():
        if name == "__init__":
            continue
        if is_abstract(method) and name not in own:
            wrong.append(f"{what}.{name} is abstract and we lack it")
        elif name in own:
            count = len(method.args.posonlyargs) + len(method.args.args)
            least = count - len(method.args.defaults)
            if not takes(own[name], count) or not takes(own[name], least):
                wrong.append(f"{what}.{name} is called with {least} to {count} arguments")
    return wrong


def main():
    tier = classes((ROOT / "python/spillway/vllm/_tier.py").read_text())["SpillwayTier"]
    policy = classes((ROOT / "python/spillway/vllm/_policy.py").read_text())["SpillwayPolicy"]
    bad = 0
    for wheel in sys.argv[1:]:
        with zipfile.ZipFile(wheel) as file:
            def read(name):
                return file.read(name).decode()
            base = classes(read(TIER))
            wrong = compare("SecondaryTierManager", base["SecondaryTierManager"], tier)
            wrong += compare("CachePolicy", classes(read(POLICY))["CachePolicy"], policy)
            init = methods(base["SecondaryTierManager"])["__init__"].args
            ours = methods(tier)["__init__"].args
            known = {one.arg for one in [*ours.args, *ours.kwonlyargs]}
            wrong += [f"the tier is not given {one.arg}" for one in init.args
                      if one.arg not in known]
            job = base.get("TransferJob") or base["JobMetadata"]
            wanted = {"job_id", "keys", "is_promotion", "req_context"}
            wrong += [f"a job has no {name}" for name in wanted - fields(job)]
            if not fields(job) & {"chunk_ids", "block_ids"}:
                wrong.append("a job has neither chunk_ids nor block_ids")
            wrong += [f"a result has no {name}"
                      for name in {"job_id", "success"} - fields(base["JobResult"])]
            offload = read("vllm/v1/kv_offload/base.py")
            for name in ("LookupResult", "ReqContext", "RequestOffloadingContext",
                         "OffloadingCounterMetadata"):
                if not re.search(rf"^class {name}\b", offload, re.MULTILINE):
                    wrong.append(f"kv_offload.base has no {name}")
            for name in ("HIT", "MISS", "RETRY"):
                if not re.search(rf"^    {name} = ", offload, re.MULTILINE):
                    wrong.append(f"LookupResult has no {name}")
        print(f"{Path(wheel).name}: " + ("fits" if not wrong else "\n  " + "\n  ".join(wrong)))
        bad += len(wrong)
    return 1 if bad or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
