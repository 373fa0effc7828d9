#!/usr/bin/env bash
# Fails, naming the files, if any source differs from what clang-format would write.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "error: clang-format is missing (apt-get install clang-format)" >&2; exit 2; }
bad=$(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | while read -r file; do
  clang-format "$file" | cmp -s - "$file" || echo "$file"
done)
[ -z "$bad" ] || { printf 'not formatted (run `make format`):\n%s\n' "$bad" >&2; exit 1; }
