#!/usr/bin/env bash
# Many short real experiments with seeds fixed beforehand: COUNT A/A runs (calibration-aa.toml, seeds 1001…) and COUNT with
# a planted slow-down of 2 % (calibration.toml, seeds 1…). All of them are kept and counted; 60 of each take about an hour
# and want a quiet machine. Each runs on a core of its own; JOBS=3 runs three of them at once where that many cores and one
# more are free. Started again, it goes on with what is missing. Exit 1 when the counts are not what they should be
# (summary.py names them).
#
# Other kinds, by KINDS="turns detect1 detect2": A against A in turns, each side in a process of its own; and the matrix
# detection.toml, 20 runs of at most 6 minutes each, with 1 % and 2 % planted. CORES_FROM=4 gives the runs the cores 4 and 5,
# 6 and 7 … instead of leaving that to the system.
#
# usage: run.sh ASSAY CORPUS OUT [COUNT]
set -euo pipefail
assay=$1 corpus=$2 out=$3 count=${4:-60} kinds=${KINDS:-aa planted}
here=$(realpath "$(dirname "$0")")
mkdir -p "$out"

declare -A matrix=([aa]=calibration-aa [planted]=calibration [turns]=calibration-aa [detect1]=detection [detect2]=detection)
declare -A first_seed=([aa]=1000 [planted]=0 [turns]=2000 [detect1]=3000 [detect2]=4000)

export assay corpus out here
one() { # kind, matrix, seed, name
  local dir=$out/$4 pin=() sets=(--set "experiment.seed=$3")
  [ ! -s "$dir.json" ] || return 0
  [ -z "${CORES_FROM:-}" ] || pin=(taskset -c "$((CORES_FROM + 2 * SLOT)),$((CORES_FROM + 2 * SLOT + 1))")
  [ "$1" != turns ] || sets+=(--set measure.interleave=turns)
  # A run that its budget ended has its verdicts too.
  sed "s/planted_spin = 0.02/planted_spin = $([ "$1" = detect1 ] && echo 0.01 || echo 0.02)/" "$here/../../experiments/matrices/$2.toml" |
    "${pin[@]}" "$assay" run - --data "$corpus" --out "$dir" "${sets[@]}" >"$dir.log" 2>&1 ||
    [ $? = 6 ] || { tail -5 "$dir.log" >&2; exit 255; }
  "$assay" report "$dir" --json >"$dir.json.part"
  mv "$dir.json.part" "$dir.json"
  python3 "$here/summary.py" --one "$dir.json" >&2 # the table at the end has them all
}
export -f one

# In turns, so that all kinds see the same hours of the machine.
for i in $(seq 1 "$count"); do
  for kind in $kinds; do
    printf '%s %s %d %s-%02d\n' "$kind" "${matrix[$kind]}" $((first_seed[$kind] + i)) "$kind" "$i"
  done
done | xargs -P "${JOBS:-1}" --process-slot-var=SLOT -L 1 bash -euo pipefail -c 'one "$@"' _
for kind in $kinds; do
  for i in $(seq 1 "$count"); do echo "$out/$kind-$(printf '%02d' "$i").json"; done
done | xargs python3 "$here/summary.py"
