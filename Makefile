# A thin front door over CMake presets. Every target is idempotent and prints what it does; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
ASSAY := build/bin/assay
RESULTS ?= results/quickstart
PREFIX ?= $(HOME)/.local
SECONDS := 60

.PHONY: help setup setup-dev programs build quickstart test test-slow test-interop sanitize tsan fuzz gpu-test gpu-sanitize gpu-bench \
  gpu-operators check check-all lint format viewer calibrate bench trace-cost shots install clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup:  ## install dependencies (Debian packages, LibTorch, CUDA compiler if missing); downloads are cached
	@cmake/setup.sh

setup-dev:  ## setup, the tools of `make check` and `make fuzz` (clang 16, pre-commit), and the commit hooks
	@cmake/setup.sh dev
	@pre-commit install

# A first build takes eight source files at a time, until build/ is removed; -DASSAY_UNITY=OFF changes over (CONTRIBUTING.md).
# The programs alone are built for the GPU at hand, until `make build` builds for all.
first = $(if $(wildcard build/CMakeCache.txt),,-DASSAY_UNITY=ON $(1))
configure = cmake --preset release -Wno-dev --log-level=WARNING

programs: setup  ## compile assay, assay-worker and assay-view into build/bin, nothing else; CUDA code for this machine's GPUs
	@$(configure) $(call first,-DASSAY_ALL_GPUS=OFF)
	@cmake --build --preset programs

build: setup  ## compile everything, tests and benchmarks too; CUDA code for every supported GPU
	@$(configure) $(call first) -DASSAY_ALL_GPUS=ON
	@cmake --build --preset release

quickstart:  ## build the programs, run quickstart.toml on LibTorch's own headers, print the verdicts
	@printf '%s\n' 'This installs what is missing (2 GB of downloads, once), compiles the three programs for this machine (9 to' \
	  '17 minutes on 2 cores the first time, seconds when nothing changed) and runs a first experiment (2 to 4 minutes, best on a quiet machine).'
	@$(MAKE) --no-print-directory programs
	@$(ASSAY) run experiments/matrices/quickstart.toml --data build/corpus --out $(RESULTS) --fork
	@$(ASSAY) report $(RESULTS) >/dev/null # writes report.html; `run` printed the table
	@printf '%s\n' '' 'Look closer:' \
	  '  $(ASSAY) explain $(RESULTS) --cell varlen      where in the step the gain is' \
	  '  $(ASSAY) view $(RESULTS)                       the desktop viewer' \
	  '  $(ASSAY) export $(RESULTS) --cell varlen -o varlen.json.gz   for Perfetto and chrome://tracing' \
	  '  $(ASSAY) sql $(RESULTS) --list                 named queries over the traces'

test: build  ## build, then all default tests
	@ctest --preset default

test-slow: build  ## kill -9 at random instants, whole trainings: minutes
	@ctest --preset slow

gpu-test: build  ## what needs a CUDA GPU
	@ctest --preset gpu

# racecheck ends with an internal error at the kernels that write FP8 and at cuBLAS's products in bf16; memcheck sees both.
# It leaves out the delta rule against doubles, which takes minutes; the same kernels run in RepeatsItselfBitForBit.
SANITIZED := NsaGpu.*:*NsaInputsGpu*:Cases/*:DeltaRuleGpuSegments*:RowwiseGpu*:UpdateGpu*:LatentOwnershipGpu*:Gpu.Exchange*:Gpu.TheL2Reader*
memcheck_tests := $(SANITIZED):Fp8Gpu.Cast*:Fp8Gpu.Kernels*:Fp8Gpu.Weights*:-*AtTheSpeedOfACopy
racecheck_tests := $(SANITIZED):Fp8Gpu.Cast*:-*AtTheSpeedOfACopy:Cases/LossHeadGpu.*/1:Cases/LossHeadGpu.*/2:Cases/LossHeadGpu.*/3:Cases/LossHeadGpu.*/4:Cases/DeltaRuleGpu.Equals*:*.AStepCopiesNoGradient:*.ModelsOfTwoPresets*:*.AKeptLinear*:*.CopiesAreTheWeights*
gpu-sanitize: build  ## our CUDA kernels on small shapes under compute-sanitizer: memcheck, then racecheck
	@for tool in memcheck racecheck; do case $$tool in memcheck) tests='$(memcheck_tests)' ;; *) tests='$(racecheck_tests)' ;; esac; \
	  compute-sanitizer --tool $$tool --kernel-name kernel_substring=assay --error-exitcode 1 build/bin/tests_model_gpu \
	    --gtest_filter="$$tests" || exit 1; done

gpu-bench: build  ## training steps against PyTorch on one GPU, in turns (PEER=… for one, PYTHON=…, CORPUS=…, TOKENIZER=…, OUT=…)
	@for peer in $(or $(PEER),deltanet_mla gpt2); do PEER=$$peer tests/bench/gpu.sh build/bin $(or $(OUT),results/gpu-bench)/$$peer \
	  $(or $(CORPUS),build/corpus) $(or $(TOKENIZER),tok.model) $(PYTHON) || exit; done

gpu-operators: build  ## operators against torch.compile, Liger, FLA and mamba_ssm on one GPU, in turns (PYTHON=…, OUT=…)
	@tests/bench/gpu_operators.sh build/bin $(or $(OUT),results/gpu-operators) $(PYTHON)

test-interop: build  ## exported traces in HolisticTraceAnalysis and nsys-ai (Python environments of their own)
	@tests/interop/run.sh build/bin

sanitize:  ## engine, analysis and viewer tests under ASan and UBSan (no LibTorch)
	@cmake/setup.sh fuzz
	@cmake --preset sanitize -Wno-dev --log-level=WARNING
	@cmake --build --preset sanitize
	@ctest --preset sanitize

tsan:  ## ThreadSanitizer over everything that runs threads: rings, trace writer, read-ahead, prefetch, loader, rank watch
	@cmake/setup.sh
	@cmake --preset tsan -Wno-dev --log-level=WARNING
	@cmake --build --preset tsan
	@ctest --preset tsan

fuzz:  ## libFuzzer over every reader of files, SECONDS=60 each (ONLY=matrix for one of them)
	@cmake/setup.sh fuzz
	@cmake --preset sanitize -Wno-dev --log-level=WARNING
	@cmake --build --preset fuzz
	@SEED=$(SEED) tests/fuzz/run.sh build/sanitize/bin $(SECONDS) $(ONLY)

check:  ## formatting, direction of includes, the documents, repeated code: seconds, needs no build
	@cmake/check_format.sh
	@python3 tests/scripts/include_direction.py .
	@python3 tests/scripts/include_direction.py . --page docs/architecture.md
	@for check in links style folders; do python3 tests/scripts/docs_check.py . $$check; done
	@python3 cmake/duplicates.py .

lint: build  ## clang-tidy over what changed since the last release (BASE=COMMIT: since that commit)
	@cmake/lint.sh $(BASE)

check-all: check test test-slow sanitize  ## before a release: slow tests, sanitizers, clang-tidy over the whole tree, ten minutes of each fuzzer
	@cmake/lint.sh --all
	@$(MAKE) --no-print-directory tsan
	@$(MAKE) --no-print-directory fuzz SECONDS=600

format:  ## rewrite our sources with clang-format
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

calibrate: programs  ## 60 A/A experiments and 60 with a planted 2 %: verdicts, coverage, bias; an hour (COUNT=2: two of each)
	@tests/calibration/run.sh $(ASSAY) build/corpus results/calibration $(COUNT)

bench: build  ## speed of ingest, export and viewer against their goals, as ratios of the same run
	@build/bin/bench_trace
	@build/bin/bench_export
	@build/bin/bench_viewer

trace-cost: build  ## what tracing costs here (SET="device=cuda preset=base …", MODES=off,assay,kineto, ROUNDS=30, SOAK=120)
	@build/bin/bench_trace_cost --worker build/bin/assay-worker --set data=build/corpus $(SET) \
	  $(if $(MODES),--modes "$(MODES)") $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SOAK),--soak $(SOAK)) --json results/trace-cost.json

shots: build  ## every screen of the viewer as a PNG, in results/shots
	@tests/ui/shots.sh build/bin results/shots

viewer:  ## `assay` and `assay-view` for people who only look: no LibTorch, no CUDA; into build/viewer/bin
	@cmake/setup.sh viewer
	@cmake --preset viewer -Wno-dev --log-level=WARNING
	@cmake --build --preset viewer --target assay assay-view

install: build  ## programs, matrices and claims into PREFIX (default ~/.local)
	@cmake --install build --prefix $(PREFIX)

clean:  ## remove build/ (the download cache stays)
	@rm -rf build
