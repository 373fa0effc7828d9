#!/usr/bin/env bash
# clang-tidy. Findings of bugprone, performance and naming are errors (.clang-tidy).
#
#   cmake/lint.sh              sources changed since the last release, the commit that wrote the newest version into
#                              CHANGELOG.md (clones without tags have it too); or since $ASSAY_LINT_BASE
#   cmake/lint.sh COMMIT       sources changed since that commit
#   cmake/lint.sh --all        every source of the build
#   cmake/lint.sh -- FILE…     these
#
# Exit 1: findings. Exit 2: it could not look (no tool, no build, no base); it never passes without having looked.
set -euo pipefail
cd "$(dirname "$0")/.."
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

tidy=$(readlink -e build/lint/clang-tidy) || die "clang-tidy is missing; make setup-dev fetches it"
[ -f build/dependencies.cmake ] || die "build/dependencies.cmake is missing; run make build first"

mode=changed files=()
case ${1:-} in
  --all) mode=all ;;
  --) mode=given; shift; files=("$@") ;;
  -*) die "unknown option $1" ;;
esac

if [ "$mode" = changed ]; then
  base=${1:-${ASSAY_LINT_BASE:-}}
  if [ -z "$base" ]; then
    [ "$(git rev-parse --is-shallow-repository)" = false ] ||
      die "this clone lacks the history; run git fetch --unshallow, or name a commit"
    base=$(git log -1 --format=%H -G'^## [0-9]+[.][0-9]+[.][0-9]+ - ' -- CHANGELOG.md)
  fi
  git rev-parse --quiet --verify "$base^{commit}" >/dev/null || die "no commit $base in this clone; fetch it, or name another"
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp')
fi

# A command for each file, which a build with ASSAY_UNITY lacks.
tree=$PWD/build/lint/tree
cmake --preset release -B "$tree" -DASSAY_UNITY=OFF -Wno-dev --log-level=WARNING >/dev/null
# Clang cannot read GCC's precompiled headers: it gets LibTorch's header itself, and tests include what they use.
sed -E "s#-include [^ ]*assay_torch_headers[^ ]*cmake_pch\.hxx#-include $PWD/model/torch_pch.h#; s#-include [^ ]*cmake_pch\.hxx##" \
  "$tree/compile_commands.json" >build/lint/compile_commands.json

# Sources of the build, and for a header the source beside it or the one that checks it alone (tests/headers).
mapfile -t sources < <(python3 - "$mode" "${files[@]}" <<'PYTHON'
import json, pathlib, sys
root = pathlib.Path.cwd()
commands = json.load(open("build/lint/compile_commands.json"))
built = {pathlib.Path(entry["file"]) for entry in commands}
mode, names = sys.argv[1], sys.argv[2:]
if mode == "all":
    ours = [path for path in built if path.suffix == ".cpp" and not path.is_relative_to(root / "build")]
    print("\n".join(sorted(map(str, ours))))
    sys.exit()
chosen = set()
for name in names:
    path = root / name
    if path.suffix == ".h":
        alone = root / "build/lint/tree/tests/headers" / (name.replace("/", "_") + ".cpp")
        path = next((p for p in (path.with_suffix(".cpp"), alone) if p in built), path)
    if path in built:
        chosen.add(str(path))
    else:
        print(f"not looked at, because it is not in the build: {name}", file=sys.stderr)
print("\n".join(sorted(chosen)))
PYTHON
)
[ -n "${sources[0]:-}" ] || sources=()
if [ ${#sources[@]} -eq 0 ]; then
  [ "$mode" = changed ] || die "nothing to look at"
  echo "no source changed since $base"
  exit 0
fi
echo "clang-tidy over ${#sources[@]} sources${base:+ changed since $base}"
# Of deprecated things: libstdc++ 12 uses them in its own templates; the compiler says what we use. Of signs: GCC does not.
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" "$tidy" --quiet -p build/lint \
  --extra-arg=-Wno-deprecated-declarations --extra-arg=-Wno-sign-conversion \
  --extra-arg=-Wno-unknown-warning-option 2> >(grep -v ' warnings\? generated' >&2) ||
  { echo "clang-tidy found faults" >&2; exit 1; }
