#!/usr/bin/env bash
# Runs the fuzzers, as many at once as there are cores: run.sh BIN_DIR SECONDS [NAME]
#
# SEED=N makes the inputs of a run the same ones on every machine, as far as its time goes; without it they are new ones.
# New inputs stay in build/fuzz/corpus/NAME; the committed corpus (tests/fuzz/corpus) and the files that we ship are read.
# A finding ends with exit 1 and leaves its input in build/fuzz/findings/: run fuzz_NAME FILE to see it again.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 BIN_DIR SECONDS [NAME]" >&2; exit 2; }
bin=$(realpath "$1")
export bin seconds=$2
names=(matrix claims ledger trace safetensors chrome nsys)
[ -z "${3:-}" ] || names=("$3")
cd "$(dirname "$0")/../.."

fuzz() {
  local name=$1 log=build/fuzz/$1.log seeds=("tests/fuzz/corpus/$1")
  [ -x "$bin/fuzz_$name" ] || { echo "error: no fuzzer $bin/fuzz_$name (make fuzz builds them)" >&2; return 1; }
  mkdir -p "build/fuzz/corpus/$name" build/fuzz/findings
  case $name in
    matrix) seeds+=(experiments/matrices) ;;
    claims) seeds+=(experiments/claims) ;;
    chrome) seeds+=(tests/analysis/import) ;;
  esac
  if "$bin/fuzz_$name" -max_total_time="$seconds" -seed="${SEED:-0}" -max_len=8192 -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/findings/$name-" "build/fuzz/corpus/$name" "${seeds[@]}" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no finding"
  else
    printf '%s: FINDING; the end of %s:\n%s\n' "$name" "$log" "$(tail -40 "$log")"
    return 1
  fi
}
export -f fuzz
printf '%s\n' "${names[@]}" | xargs -n 1 -P "${JOBS:-$(nproc)}" bash -c 'fuzz "$1"' _
