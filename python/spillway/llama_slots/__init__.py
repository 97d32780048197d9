# SPDX-License-Identifier: Apache-2.0
"""llama-server with its contexts kept in Spillway.

  python3 -m spillway.llama_slots [OPTIONS] -- llama-server -m MODEL [ITS OPTIONS]

Runs llama-server, and stands in front of it as an HTTP proxy. Before a request the slot with the
longest prefix of its prompt is restored from a running spillwayd, if no slot of llama-server has a
longer one; after it the slot is saved. docs/engines.md has the options and what it costs.

Parts: `_namespace` (which servers may share states), `_state` (llama.cpp's slot files), `_store`
(states in Spillway), `_slots` (which slot holds what; save and restore), `_proxy` (HTTP),
`_main` (the process).
"""
