#!/usr/bin/env bash
# Pictures of every screen in every state and both themes, made without a display: `shots.sh BIN_DIR OUT_DIR`.
# Results come from `assay demo`, or, where that verb is missing, from the viewer tests' own `ui_sample`.
set -euo pipefail

[[ $# == 2 ]] || { echo "usage: shots.sh BIN_DIR OUT_DIR" >&2; exit 2; }
bin=$1 out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

if "$bin/assay" --help | grep -q '^  demo '; then
  "$bin/assay" demo "$work/normal" >"$work/demo.log" || { cat "$work/demo.log" >&2; exit 1; }
else
  "$bin/ui_sample" "$work/normal"
fi
mkdir "$work/error" "$work/empty"
printf 'no ledger at all, but long enough to have a header of one hundred bytes %040d\n' 0 >"$work/error/ledger.sqlite"
# Empty: the same plan without any launch, or, for traces, the same results without their traces.
cp -r "$work/normal" "$work/untraced"
rm -rf "$work/untraced/traces"

count=0
shot() { # screen state theme path expected-exit [scale [script]]
  local file="$out/$1-$2-$3${6:+-$6}.png" status=0
  printf '%s\n' "${7:-}" >"$work/script"
  "$bin/assay-view" ${4:+"$4"} ${7:+--script "$work/script"} --screen "$1" --theme "$3" --scale "${6:-1}" --size 1600x1000 --screenshot "$file" \
    >"$work/stdout" 2>"$work/stderr" || status=$?
  if [[ $status != "$5" || ! -s $file ]]; then
    echo "$file: exit $status, expected $5: $(cat "$work/stderr")" >&2
    exit 1
  fi
  count=$((count + 1))
}

for theme in dark light; do
  for screen in start runs compare timeline kernels telemetry; do
    shot "$screen" normal "$theme" "$work/normal" 0
    shot "$screen" error "$theme" "$work/error" 2
    case $screen in
      timeline | kernels | telemetry) shot "$screen" empty "$theme" "$work/untraced" 0 ;;
      *) shot "$screen" empty "$theme" "" 0 ;;
    esac
  done
  shot compare speed "$theme" "$work/normal" 0 "" $'click pane.speed\nexpect model.pane=speed'
  shot compare loss "$theme" "$work/normal" 0 "" $'click pane.loss\nexpect model.pane=loss'
  shot compare loss "$theme" "$work/normal" 0 2 $'click pane.loss\nexpect model.pane=loss'
  shot timeline gap "$theme" "$work/normal" 0 "" $'run gaps\nrun gap.next\nexpect model.gaps.shown=0'
  shot compare normal "$theme" "$work/normal" 0 2
  shot timeline normal "$theme" "$work/normal" 0 2
done
echo "$count pictures in $out"
