#!/usr/bin/env bash
# clang-tidy over the .cpp files that differ from a commit (default HEAD), or over the files given after it.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy-16 >/dev/null || { echo "error: clang-tidy-16 is missing (apt-get install clang-tidy-16; 14 does not know std::source_location)" >&2; exit 2; }
base=${1:-HEAD}
[ $# -eq 0 ] || shift
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cpp')
[ ${#files[@]} -gt 0 ] || exit 0
# Clang cannot read GCC's precompiled header: it gets the header itself.
mkdir -p build/lint
sed -E "s#-include [^ ]*cmake_pch\.hxx#-include $PWD/model/torch_pch.h#" build/compile_commands.json >build/lint/compile_commands.json
clang-tidy-16 --quiet -p build/lint "${files[@]}"
