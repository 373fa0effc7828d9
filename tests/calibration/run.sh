#!/usr/bin/env bash
# Twenty short real experiments of experiments/matrices/calibration.toml, each with another seed: does the 95 % interval
# of the A/A control cover 0, and that of a planted 5 % slow-down cover 5 %? All twenty are kept and printed.
# Exit 0 when each covers in at least 17 of 20 (at a true coverage of 95 %, fewer happens in 1.6 % of benchmarks).
#
# usage: run.sh ASSAY CORPUS OUT [COUNT]
set -euo pipefail
assay=$1 corpus=$2 out=$3 count=${4:-20}
here=$(dirname "$0")
mkdir -p "$out"
for i in $(seq 1 "$count"); do
  dir=$out/$(printf '%02d' "$i")
  "$assay" run "$here/../../experiments/matrices/calibration.toml" --data "$corpus" --out "$dir" --set "experiment.seed=$i" 2>"$dir.log" ||
    { tail -5 "$dir.log" >&2; exit 1; }
  "$assay" report "$dir" --json >"$dir.json"
  python3 "$here/coverage.py" --one "$dir.json"
done
python3 "$here/coverage.py" "$out"/[0-9]*.json
