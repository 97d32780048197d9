# SPDX-License-Identifier: Apache-2.0
"""A small model for llama-server, of random weights: Llama, 2 layers, a byte is a token.

  make_gguf.py FILE SEED
"""

import random
import struct
import sys
from array import array

VOCABULARY, HIDDEN, FEED, LAYERS, HEADS, KV_HEADS, CONTEXT = 320, 128, 256, 2, 4, 2, 2048
HEAD = HIDDEN // HEADS
SCALE = 0.15  # With smaller weights all answers are alike.
ALIGN = 32
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def text(value):
    return struct.pack("<Q", len(value)) + value


def fact(name, kind, value):
    packed = {U32: "<I", F32: "<f", BOOL: "<?"}.get(kind)
    return text(name.encode()) + struct.pack("<I", kind) + (
        struct.pack(packed, value) if packed else value)


def listed(kind, values):
    pack = {STRING: text, F32: lambda one: struct.pack("<f", one),
            I32: lambda one: struct.pack("<i", one)}[kind]
    return struct.pack("<IQ", kind, len(values)) + b"".join(map(pack, values))


def facts():
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % at for at in range(256)]
    tokens += [b"w%d" % at for at in range(VOCABULARY - len(tokens))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259)
    numbers = {"context_length": CONTEXT, "embedding_length": HIDDEN, "block_count": LAYERS,
               "feed_forward_length": FEED, "attention.head_count": HEADS,
               "attention.head_count_kv": KV_HEADS, "rope.dimension_count": HEAD,
               "vocab_size": VOCABULARY}
    said = [fact("general.architecture", STRING, text(b"llama")),
            fact("llama.attention.layer_norm_rms_epsilon", F32, 1e-5)]
    said += [fact(f"llama.{name}", U32, value) for name, value in numbers.items()]
    said += [fact("tokenizer.ggml.model", STRING, text(b"llama")),
             fact("tokenizer.ggml.tokens", ARRAY, listed(STRING, tokens)),
             fact("tokenizer.ggml.scores", ARRAY, listed(F32, [0.0] * VOCABULARY)),
             fact("tokenizer.ggml.token_type", ARRAY, listed(I32, kinds)),
             fact("tokenizer.ggml.bos_token_id", U32, 1),
             fact("tokenizer.ggml.eos_token_id", U32, 2),
             fact("tokenizer.ggml.unknown_token_id", U32, 0),
             fact("tokenizer.ggml.add_bos_token", BOOL, False)]
    return said


def shapes():
    """Names and dimensions, the fastest first."""
    found = {"token_embd.weight": (HIDDEN, VOCABULARY), "output_norm.weight": (HIDDEN,),
             "output.weight": (HIDDEN, VOCABULARY)}
    for layer in range(LAYERS):
        kv = KV_HEADS * HEAD
        for name, shape in {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,),
                            "attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN, kv),
                            "attn_v": (HIDDEN, kv), "attn_output": (HIDDEN, HIDDEN),
                            "ffn_gate": (HIDDEN, FEED), "ffn_up": (HIDDEN, FEED),
                            "ffn_down": (FEED, HIDDEN)}.items():
            found[f"blk.{layer}.{name}.weight"] = shape
    return found


def write(path, seed):
    numbers = random.Random(seed)
    said, tensors, offset = facts(), shapes(), 0
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(said)), *said]
    data = []
    for name, shape in tensors.items():
        head.append(text(name.encode()) + struct.pack("<I", len(shape))
                    + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, offset))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = array("f", [1.0] * count if len(shape) == 1 else
                       (numbers.gauss(0, SCALE) for _ in range(count)))
        data.append(values.tobytes().ljust(-(-4 * count // ALIGN) * ALIGN, b"\0"))
        offset += len(data[-1])
    head = b"".join(head)
    with open(path, "wb") as file:
        file.write(head.ljust(-(-len(head) // ALIGN) * ALIGN, b"\0"))
        file.writelines(data)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
