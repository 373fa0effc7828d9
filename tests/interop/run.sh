#!/usr/bin/env bash
# Do the tools that people already use read our traces and checkpoints, and do they find the numbers that we find? Do we
# read the files and the compiled models that they write?
#
#   tests/interop/run.sh BIN_DIR [DIR…]     traces below DIR; default: a fresh demo, and the committed traces of an H200
#
# The Python environment is made once under build/ and again when requirements.txt changes (about 20 s).
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 BIN_DIR [DIR...]" >&2; exit 2; }
bin=$(realpath "$1"); shift
here=$(realpath "$(dirname "$0")")
root=$here/../..
[ -x "$bin/assay" ] || { echo "error: $bin/assay is missing: run make build" >&2; exit 2; }

mkdir -p "$root/build"
environment=$(realpath "$root/build")/interop-venv
wanted=$(sha256sum "$here/requirements.txt" | cut -c1-16)
if [ "$(cat "$environment/made-of" 2>/dev/null)" != "$wanted" ]; then
  echo "==> Making $environment"
  rm -rf "$environment"
  python3 -m venv "$environment" || { echo "error: python3 has no venv (apt-get install python3-venv)" >&2; exit 2; }
  "$environment/bin/pip" install --quiet --no-deps -r "$here/requirements.txt" ||
    { echo "error: installing $here/requirements.txt failed; check the network and run the same command again" >&2; exit 2; }
  echo "$wanted" >"$environment/made-of"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $# -eq 0 ]; then
  "$bin/assay" demo "$work/demo" >/dev/null
  set -- "$work/demo"
  [ ! -d "$root/docs/results/h200/trace" ] || set -- "$@" "$root/docs/results/h200/trace"
fi
mapfile -t traces < <(find "$@" -path '*traces/*.sqlite' | sort)
[ ${#traces[@]} -gt 0 ] || { echo "error: no traces (*/traces/*.sqlite) below $*" >&2; exit 2; }
if [ -x "$bin/tests_model" ]; then # a checkpoint of ours, opened by Python's safetensors
  log=$work/checkpoint.log
  PATH=$environment/bin:$PATH "$bin/tests_model" --gtest_filter='*OpensWithPythonsSafetensors' >"$log" 2>&1 && ! grep -q SKIPPED "$log" ||
    { cat "$log" >&2; echo "error: Python's safetensors does not open our checkpoint" >&2; exit 1; }
  echo "checkpoint: opened by safetensors $("$environment/bin/python" -c 'import safetensors; print(safetensors.__version__)')"
fi
if [ -x "$bin/assay-worker" ]; then
  folder() { sed -n "s/set($1 \"\(.*\)\")/\1/p" "$root/build/dependencies.cmake"; }
  PYTHONPATH=$(folder ASSAY_LIBTORCH_DIR):$(dirname "$(folder ASSAY_ARROW_DIR)") \
    "$environment/bin/python" "$here/check_files.py" "$bin/assay" "$work" "$root"
fi
"$environment/bin/python" "$here/check_traces.py" "$bin/assay" "$work" "${traces[@]}"
