# SPDX-License-Identifier: Apache-2.0
# Spillway over CMake presets: `make help` lists the targets.
# Everything is built under build/<preset>; nothing else is written.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FOR ?=
SEEDS ?= 2000
EVENTS ?= 20000
N ?= 1000
GRAPHS ?= 100000
COMMANDS ?= 1000000
CYCLES ?= 100000
SECONDS ?= 600
TRACES ?= ../shared/traces

MAKEFLAGS += --no-print-directory
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
export ENGINES
export NINJA_STATUS := [%f/%t %es] 

bootstrap = @tools/bootstrap.sh $(1)
build     = @tools/build.sh $(1)
check     = @python3 tools/check.py $(1)

.PHONY: all run test bench bench-resp bench-hostile bench-refused bench-asyncio py-soak fuzz lint san coverage sim server-sim digests kill-loop engine-kill engine-versions llama-test sweep graph-check resp-diff resp-flip resp-kill replay-table packages packages-test doc-tests ci-long install format clean help
.DEFAULT_GOAL := all

all: ## Build the program and the libraries (the default)
	$(call bootstrap,run)
	$(call build,release all)

define about_run
make run: builds spillwayd (minutes the first time, then seconds) and starts a demo for $(or $(FOR),1min).
You will see twelve agents fill a card with contexts; another process take half of it, and one ask
for it: how soon each has its memory; kill -9 of the daemon, and every context on disk verified.
While it runs: http://127.0.0.1:7380/ is the dashboard. No GPU is needed. Ctrl-C ends it.
endef
export about_run

run: ## The demo on a real spillwayd; FOR=20s instead of a minute
	@echo "$$about_run"
	$(call bootstrap,run)
	$(call build,release spillwayd_bin spillway_bin)
	@python3 examples/demo $(if $(FOR),--for $(FOR))

test: ## All tests, sanitizers, headers, install, Python, engines, dashboard, light lint; ENGINES=no
	$(call bootstrap,test)
	$(call check,release asan-unit headers install python engines web docs lint-light)

bench: ## Measure beside the peers, in one run
	$(call bootstrap,bench)
	$(call build,release benches)
	@tools/run_benches.sh build/release/bench

bench-resp: ## spillwayd beside Debian's Redis 7, in turns
	$(call bootstrap,bench)
	$(call build,release spillwayd_bin resp_lean)
	@python3 bench/resp/run.py build/release/bin/spillwayd build/release/bench/resp/resp_lean

bench-hostile: ## Hostile clients: what others feel, and how much spillwayd's memory grows
	$(call bootstrap,bench)
	$(call build,release spillwayd_bin)
	@python3 bench/resp/hostile.py build/release/bin/spillwayd

bench-asyncio: ## A thousand gets and sets at once from one event loop: its longest stall
	$(call bootstrap,run)
	$(call build,release spillway_self_contained)
	@SPILLWAY_LIBRARY=build/release/python/spillway/_lib/libspillway.so.0 PYTHONPATH=python \
	  python3 bench/asyncio_stall.py

bench-refused: ## What EMERGENCY costs those who are refused, and those who read
	$(call bootstrap,bench)
	$(call build,release spillwayd_bin)
	@python3 bench/resp/refused.py build/release/bin/spillwayd

lint: ## Format, include directions, determinism, machine paths, clang-tidy
	$(call bootstrap,lint)
	$(call check,lint)

san: ## The whole suite under address+UB and thread sanitizers, and the stress program
	$(call bootstrap,test)
	$(call check,asan tsan stress)

coverage: ## Line coverage of src/, at least 90 %
	$(call bootstrap,coverage)
	@tools/coverage.sh

sim: ## The long simulation: SEEDS=2000 EVENTS=20000
	$(call bootstrap,test)
	$(call build,release spillway_sim)
	@build/release/tests/spillway_sim --seeds $(SEEDS) --events $(EVENTS)

server-sim: ## The whole daemon in simulated worlds, every reply checked, then with each planted bug: SEEDS=2000
	$(call bootstrap,test)
	$(call build,release server_sim)
	@build/release/tests/server_sim --seeds $(SEEDS)
	@build/release/tests/server_sim --mutant all

digests: ## One number for all events of each simulator: SEEDS=2000; for before and after
	$(call bootstrap,test)
	@tools/digests.sh $(SEEDS)

kill-loop: ## Kills a cache under load N=1000 times and verifies what it left
	$(call bootstrap,test)
	$(call build,release kill_loop)
	@build/release/tests/kill_loop --kills $(N)

engine-kill: ## Kills the real vLLM and spillwayd N=50 times at random moments: no wrong tokens
	$(call bootstrap,test)
	$(call build,release spillway_self_contained spillwayd_bin)
	@python3 tools/engine_tests.py --kills $(if $(filter 1000,$(N)),50,$(N))

engine-versions: ## The engine tests with each vLLM that runs on the CPU
	$(call bootstrap,test)
	$(call build,release spillway_self_contained spillwayd_bin)
	@python3 tools/engine_tests.py --vllm 0.32.0,0.31.0,0.30.0,0.29.0,0.28.0

llama-test: ## The sidecar of llama-server with the real one, built from PyPI on first use (ten minutes)
	$(call bootstrap,test)
	$(call build,release spillwayd_bin)
	@python3 tools/llama_test.py

sweep: ## Each file call, chunk and allocation of a run fails, once and for good
	$(call bootstrap,test)
	$(call build,release sweep)
	@build/release/tests/sweep

graph-check: ## Random step graphs against a naive fixpoint: GRAPHS=100000
	$(call bootstrap,test)
	$(call build,release graph_check)
	@build/release/tests/graph_check --graphs $(GRAPHS)

resp-diff: ## The same random commands to Redis and to spillwayd, with much, little and no memory: COMMANDS=1000000
	$(call bootstrap,test)
	$(call build,release resp_diff)
	@build/release/tests/resp_diff --mode all --commands $(COMMANDS) --spillwayd build/release/bin/spillwayd

resp-flip: ## Flips one bit in 1,000 of a journal, one at a time, and verifies what spillwayd serves
	$(call bootstrap,test)
	$(call build,release spillwayd_bin)
	@python3 tests/resp/flip.py build/release/bin/spillwayd

resp-kill: ## Kills spillwayd under load N=1000 times, configurations at random, and verifies what it serves
	$(call bootstrap,test)
	$(call build,release spillwayd_bin slow_disk)
	@python3 tests/resp/kill.py build/release/bin/spillwayd --slow-disk build/release/tests/slow_disk.so --kills $(N)

py-soak: ## Opens, sets, gets and closes from Python CYCLES=100000 times; nothing may grow
	$(call bootstrap,test)
	$(call build,release spillway_self_contained)
	@python3 tools/python_tests.py --soak $(CYCLES)

fuzz: ## Every border under libFuzzer, one after another, each for SECONDS=600
	$(call bootstrap,test)
	$(call build,release build_request_fuzz build_config_fuzz build_blob_fuzz build_http_fuzz build_capi_fuzz)
	@tools/fuzz.sh build/release/tests $(SECONDS)

replay-table: ## Every order on the traces in TRACES=DIR, beside the goals
	$(call bootstrap,run)
	$(call build,release spillway_bin)
	@python3 tools/replay_table.py --traces $(TRACES)

ci-long: ## Everything: tests, all sanitizers, lint, coverage, long simulation, bench
	$(call bootstrap,test)
	$(call bootstrap,lint)
	$(call check,release asan tsan stress headers install lint)
	@$(MAKE) coverage
	@$(MAKE) sim
	@$(MAKE) server-sim
	@$(MAKE) graph-check
	@$(MAKE) bench

packages: ## A .deb and a wheel with the programs, under build/packages
	$(call bootstrap,packages)
	@python3 tools/packages.py

packages-test: packages ## Installs, uses, upgrades and purges them in fresh Debian 12 chroots; lintian
	$(call bootstrap,packages-test)
	@python3 tools/packages_test.py

doc-tests: ## Every command of the documentation that can run here
	$(call bootstrap,test)
	$(call build,release spillwayd_bin spillway_bin spillway_self_contained)
	@python3 tools/doc_tests.py

install: all ## Install under PREFIX=/usr/local
	@cmake --install build/release --prefix $(PREFIX)

format: ## Rewrite the sources as .clang-format says
	$(call bootstrap,lint)
	@tools/format.sh

clean: ## Remove build/
	@rm -rf build

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile
