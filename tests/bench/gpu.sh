#!/usr/bin/env bash
# The whole training step of Assay against the same model in PyTorch, on one GPU in turns A B B A (A: Assay, B: the peer at
# each level, best level counts), whole processes each. Prints every turn, then the ratio of tokens per second.
#
# usage: gpu.sh BIN OUT CORPUS TOKENIZER [PYTHON]
#   BIN        directory with assay and assay-worker
#   OUT        new directory for results and logs
#   CORPUS     text to train on; TOKENIZER a SentencePiece model of it (`assay tokenizer train`)
#   PYTHON     interpreter with what the peer imports (default: python3)
# PEER in the environment chooses the model: deltanet_mla (the default; needs torch, fla, einops) or gpt2 (torch, triton).
# ROWS=6 and LEVELS="pieces captured" change the shape (default: that of peers/PEER.toml) and the peer's levels (all);
# SET="precision=fp8 fp8_scaling=delayed" changes keys of Assay's side.
#
# A peer that cannot be run is named and is an error: no ratio without it.
set -euo pipefail
die() { printf 'error: %s\n' "$*" >&2; exit 2; }
[ $# -ge 4 ] || { sed -n '2,14s/^# \?//p' "$0" >&2; exit 2; }
bin=$1 out=$2 corpus=$3 tokenizer=$4 python=${5:-python3} peer=${PEER:-deltanet_mla} levels=${LEVELS:-} keys=()
for key in ${SET:-}; do keys+=(--set "base.$key"); done
here=$(realpath "$(dirname "$0")")
case $peer in
  deltanet_mla) modules="torch fla einops" ;;
  gpt2) modules="torch triton" ;;
  *) die "no peer '$peer'; PEER is deltanet_mla or gpt2" ;;
esac
matrix=$here/peers/$peer.toml
shape() { sed -n "s/^$1 = //p" "$matrix"; }
rows=${ROWS:-$(shape batch_rows)}
[ ! -e "$out" ] || die "$out exists; name a new directory"
[ -x "$bin/assay" ] || die "no program $bin/assay; make build makes it"
for module in $modules; do
  "$python" -c "import $module" 2>/dev/null ||
    die "$python has no module $module, which the peer $peer needs: pip install torch (brings triton), --no-deps fla-core einops"
done
mkdir -p "$out"

ours() { # turn
  local dir=$out/assay-$1
  "$bin/assay" run "$matrix" --cell step --data "$corpus" --out "$dir" --set "base.tokenizer=$tokenizer" \
    --set "base.batch_rows=$rows" --set "experiment.seed=$1" "${keys[@]}" >"$out/assay-$1.log" 2>&1 ||
    { tail -5 "$out/assay-$1.log" >&2; die "Assay's turn $1 failed; the whole log is $out/assay-$1.log"; }
  "$bin/assay" sql "$dir" --json --limit 0 "SELECT v.wall_ns / 1e6 / v.steps AS step_ms, v.tokens * 1e9 / v.wall_ns AS tokens_per_s,
    v.sm_clock_mhz, v.power_w FROM visit v JOIN variant a ON a.id = v.variant JOIN launch l ON l.id = v.launch
    WHERE l.kind = 'timed' AND NOT v.warmup AND a.role = 'reference'" >"$out/assay-$1.json"
}

theirs() { # turn
  # shellcheck disable=SC2086 # levels are words
  "$python" "$here/peers/$peer.py" --rows "$rows" --seq "$(shape seq_len)" $levels >"$out/peer-$1.json" 2>"$out/peer-$1.log" ||
    { tail -5 "$out/peer-$1.log" >&2; die "the peer's turn $1 failed; the whole log is $out/peer-$1.log"; }
}

ours 1; theirs 2; theirs 3; ours 4
"$python" "$here/peers/ratio.py" "$out"
