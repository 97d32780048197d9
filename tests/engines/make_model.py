# SPDX-License-Identifier: Apache-2.0
"""make_model.py FOLDER SEED [FOLDER SEED ...]: tiny Llamas with random weights.

The scale of the weights is six times the usual one: with the usual one all logits are nearly equal,
and the same tokens would prove nothing.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=512,
                     num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
                     head_dim=32, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2,
                     initializer_range=0.12)
for folder, seed in zip(sys.argv[1::2], sys.argv[2::2]):
    torch.manual_seed(int(seed))
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)
