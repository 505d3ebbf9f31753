# The list of developer commands. CMake builds, CTest tests; what is longer than a line is a script.
export TIDELOCK_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tidelock
jobs := $(shell nproc)

.PHONY: help deps build run test e2e lint fuzz bench clean

help: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

deps: ## install what building and testing need
	.ci/deps

build: deps ## the program: build/tidelock
	cmake --preset release
	cmake --build --preset release
	ln -sfn release/tidelock build/tidelock

run: build ## a control plane with the memcached operator, the host in the foreground
	spec/controlplane/demo

test: build ## every test: C, Lua, and the program against a real control plane
	spec/controlplane/build > /dev/null || [ $$? = 69 ]
	ctest --preset release -j $(jobs)

e2e: build ## only the program against a real control plane
	ctest --preset release -L functional

lint: ## format, clang-tidy, luacheck, include graph, limits of size
	.ci/lint

fuzz: ## run the fuzzers of spec/fuzz for a while
	@[ -x spec/fuzz/run ] || { echo "spec/fuzz has no fuzzers yet"; exit 1; }
	spec/fuzz/run

bench: build ## run the benchmarks of spec/bench
	@[ -x spec/bench/run ] || { echo "spec/bench has no benchmarks yet"; exit 1; }
	spec/bench/run

clean: ## remove what was built; the cache of the control plane stays
	rm -rf build
