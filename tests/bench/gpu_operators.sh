#!/usr/bin/env bash
# Operators of Assay against public kernels (torch.compile, Liger, FLA, mamba_ssm) on one GPU, in turns A B B A of whole processes
# (A: bench_operators, B: peers/operators.py). Prints time on the device, time as a caller sees it, and memory, of both sides.
#
# usage: gpu_operators.sh BIN OUT [PYTHON]
#   BIN        directory with bench_operators
#   OUT        new directory for results and logs
#   PYTHON     interpreter with torch, liger_kernel, fla and mamba_ssm (default: python3)
# OPERATORS="loss_head delta_rule" in the environment chooses some of them (default: all).
#
# A peer that cannot be run is named and is an error: no ratio without it.
set -euo pipefail
die() { printf 'error: %s\n' "$*" >&2; exit 2; }
[ $# -ge 2 ] || { sed -n '2,9s/^# \?//p' "$0" >&2; exit 2; }
bin=$1 out=$2 python=${3:-python3} operators=${OPERATORS:-loss_head delta_rule nsa rwkv6 ssd}
here=$(realpath "$(dirname "$0")")
[ ! -e "$out" ] || die "$out exists; name a new directory"
[ -x "$bin/bench_operators" ] || die "no program $bin/bench_operators; make build makes it"
needs() { # module package
  "$python" -c "import $1" 2>/dev/null || die "$python has no module $1, which a peer needs: pip install --no-deps $2"
}
needs torch torch
for operator in $operators; do
  case $operator in
    loss_head) needs liger_kernel liger-kernel ;;
    delta_rule | nsa | rwkv6) needs fla fla-core; needs einops einops ;;
    ssd)
      needs fla fla-core; needs einops einops
      "$python" -c 'import importlib.util as i; exit(i.find_spec("mamba_ssm") is None)' ||
        die "$python finds no mamba_ssm, which ssd is compared with: unpack its source from PyPI on PYTHONPATH, unbuilt" ;;
    *) die "no operator '$operator'; OPERATORS are loss_head, delta_rule, nsa, rwkv6 and ssd" ;;
  esac
done
mkdir -p "$out"

turn() { # number side command...
  local name=$2-$1
  "${@:3}" >"$out/$name.json" 2>"$out/$name.log" ||
    { tail -5 "$out/$name.log" >&2; die "turn $1 ($2) failed; the whole log is $out/$name.log"; }
}

# shellcheck disable=SC2086 # operators are words
{
  turn 1 assay "$bin/bench_operators" $operators
  turn 2 peer "$python" "$here/peers/operators.py" $operators
  turn 3 peer "$python" "$here/peers/operators.py" $operators
  turn 4 assay "$bin/bench_operators" $operators
}
"$python" "$here/peers/ratio_operators.py" "$out"
