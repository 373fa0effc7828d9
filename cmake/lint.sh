#!/usr/bin/env bash
# clang-tidy over the .cpp files that differ from a commit (default HEAD).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "error: clang-tidy is missing (apt-get install clang-tidy)" >&2; exit 2; }
mapfile -t files < <(git diff --name-only --diff-filter=d "${1:-HEAD}" -- '*.cpp')
[ ${#files[@]} -eq 0 ] || clang-tidy --quiet -p build "${files[@]}"
