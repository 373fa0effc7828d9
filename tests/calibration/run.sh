#!/usr/bin/env bash
# Many short real experiments with seeds fixed beforehand: COUNT A/A runs (calibration-aa.toml, seeds 1001…) and COUNT with
# a planted slow-down of 2 % (calibration.toml, seeds 1…). All of them are kept and counted; 60 of each take about an hour
# and want a quiet machine. Each runs on a core of its own; JOBS=3 runs three of them at once where that many cores and one
# more are free. Started again, it goes on with what is missing. Exit 1 when the counts are not what they should be
# (summary.py names them).
#
# usage: run.sh ASSAY CORPUS OUT [COUNT]
set -euo pipefail
assay=$1 corpus=$2 out=$3 count=${4:-60}
here=$(realpath "$(dirname "$0")")
mkdir -p "$out"

export assay corpus out here
one() { # matrix, seed, name
  local dir=$out/$3
  [ ! -s "$dir.json" ] || return 0
  "$assay" run "$here/../../experiments/matrices/$1.toml" --data "$corpus" --out "$dir" --set "experiment.seed=$2" \
    >"$dir.log" 2>&1 || { tail -5 "$dir.log" >&2; exit 255; }
  "$assay" report "$dir" --json >"$dir.json.part"
  mv "$dir.json.part" "$dir.json"
  python3 "$here/summary.py" --one "$dir.json" >&2 # the table at the end has them all
}
export -f one

# In turns, so that both kinds see the same hours of the machine.
for i in $(seq 1 "$count"); do
  printf 'calibration-aa %d aa-%02d\ncalibration %d planted-%02d\n' $((1000 + i)) "$i" "$i" "$i"
done | xargs -P "${JOBS:-1}" -L 1 bash -euo pipefail -c 'one "$@"' _
for kind in aa planted; do
  for i in $(seq 1 "$count"); do echo "$out/$kind-$(printf '%02d' "$i").json"; done
done | xargs python3 "$here/summary.py"
