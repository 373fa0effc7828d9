#!/usr/bin/env bash
# Installs what the build needs: Debian packages by apt, LibTorch and (if the machine has none) the CUDA compiler from
# PyPI wheels, Dear ImGui's sources from a PyPI source distribution. Downloads are checked by hash, unpacked into
# ${XDG_CACHE_HOME:-~/.cache}/assay under a name that holds their versions, and never fetched twice. Idempotent.
#
#   cmake/setup.sh          everything (trainer, engine, viewer)
#   cmake/setup.sh viewer   only what `assay` and `assay-view` need: no LibTorch, no CUDA
#   cmake/setup.sh fuzz     as viewer, and the compiler that fuzzes
#   cmake/setup.sh dev      everything, and the tools of `make check`, `make lint` and `make fuzz`
set -euo pipefail
cd "$(dirname "$0")/.."
lane=${1:-all}
case $lane in all | viewer | fuzz | dev) ;; *) echo "error: unknown lane '$lane' (all, viewer, fuzz, dev)" >&2; exit 2 ;; esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/assay
mkdir -p "$cache" build

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

[ "$(uname -sm)" = "Linux x86_64" ] || die "Assay builds on x86-64 Linux; this is $(uname -sm)."

# --- Debian packages -------------------------------------------------------------------------------------------------
packages=(g++ cmake ninja-build make git pkg-config ccache python3 python3-pip python3-venv ca-certificates zlib1g-dev libsqlite3-dev
  libboost-dev libboost-math-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libutfcpp-dev libfmt-dev libgtest-dev libgmock-dev procps
  libglfw3-dev libegl-dev libgl-dev libopengl-dev libgl1-mesa-dri libegl1 fonts-dejavu-core libstb-dev)
case $lane in all | dev) packages+=(libsentencepiece-dev libgloo-dev) ;; esac
case $lane in fuzz | dev) packages+=(clang-16 libclang-rt-16-dev) ;; esac
[ "$lane" != dev ] || packages+=(clang-format pre-commit)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "these packages are missing and there is no apt-get: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "run as root, or install by hand: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >"$cache/apt.log" 2>&1 || { tail -20 "$cache/apt.log" >&2; die "apt-get failed; the whole log is $cache/apt.log"; }
fi

# --- Wheels ----------------------------------------------------------------------------------------------------------
# fetch NAME REQUIREMENTS [pip options…]: unpacks the wheels of a pinned list into $cache/NAME-<hash of the list>,
# whose path it leaves in $fetched. The rename at the end makes a half-done download invisible.
fetch() {
  local name=$1 list=$2; shift 2
  fetched=$cache/$name-$(sha256sum "$list" | cut -c1-12)
  [ -d "$fetched" ] && return
  say "Downloading $name ($(grep -c '^[a-z]' "$list") packages) into $fetched"
  local work=$fetched.part.$$
  rm -rf "$fetched".part.*
  mkdir -p "$work/download" "$work/tree"
  python3 -m pip download --quiet --progress-bar off --no-deps --require-hashes -r "$list" -d "$work/download" "$@" ||
    die "downloading $name failed; check the network and run the same command again"
  local file
  for file in "$work"/download/*; do
    case $file in
      *.whl) python3 -m zipfile -e "$file" "$work/tree" ;;
      *.tar.gz) tar -xzf "$file" -C "$work/tree" ;;
    esac
  done
  mv "$work/tree" "$fetched"
  rm -rf "$work"
}

platforms=(--python-version 3.11 --only-binary=:all: --platform manylinux1_x86_64 --platform manylinux2010_x86_64
  --platform manylinux2014_x86_64)
for minor in $(seq 5 36); do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done

fetch imgui cmake/imgui-source.txt --no-binary=:all: --only-binary=scikit-build-core,nanobind,typing-extensions,packaging,pathspec,ninja,cmake
imgui=$(dirname "$(find "$fetched" -path '*/imgui/imgui.cpp' -print -quit)")/..

if [ "$lane" = dev ]; then
  fetch clang-tidy-23.1.4 cmake/clang-tidy-wheel.txt "${platforms[@]}"
  chmod u+x "$fetched/clang_tidy/data/bin/clang-tidy"
  mkdir -p build/lint
  ln -sfn "$fetched/clang_tidy/data/bin/clang-tidy" build/lint/clang-tidy
fi

# Paths for CMake, rewritten only when they change so that nothing rebuilds.
out=build/dependencies.cmake
if [ "$lane" = viewer ] || [ "$lane" = fuzz ]; then
  mkdir -p build/viewer
  out=build/viewer/dependencies.cmake
  printf 'set(ASSAY_IMGUI_DIR "%s")\n' "$(realpath "$imgui")" >"$out.new"
else
  fetch libtorch-2.11.0 cmake/libtorch-wheels.txt "${platforms[@]}"
  libtorch=$fetched
  fetch cudnn-frontend-1.32.0 cmake/cudnn-frontend-wheel.txt "${platforms[@]}"
  frontend=$fetched
  fetch arrow-26.0.1 cmake/arrow-wheel.txt "${platforms[@]}"
  arrow=$fetched/pyarrow
  nvcc=
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [ -x "$candidate" ] && "$candidate" --version | grep -q 'release 13\.0'; then nvcc=$candidate; break; fi
  done
  if [ -z "$nvcc" ]; then
    fetch cuda-compiler-13.0 cmake/cuda-compiler-wheels.txt "${platforms[@]}"
    toolkit=$fetched/nvidia/cu13
    nvcc=$toolkit/bin/nvcc
    if [ ! -e "$toolkit/lib64/libcudart_static.a" ]; then  # the runtime comes with LibTorch's wheels
      cp -rn "$libtorch/nvidia/cu13/include/." "$toolkit/include/"
      mkdir -p "$toolkit/lib64"
      cp "$libtorch"/nvidia/cu13/lib/libcudart* "$libtorch"/nvidia/cu13/lib/libcudadevrt.a "$toolkit/lib64/"
      chmod -R u+x "$toolkit/bin" "$toolkit/nvvm/bin"
    fi
  fi
  ln -sfn "$libtorch/torch/include" build/corpus  # real documents of very different length, for the quickstart
  say "LibTorch 2.11.0: $libtorch"
  say "CUDA compiler:   $nvcc"
  {
    printf 'set(ASSAY_IMGUI_DIR "%s")\n' "$(realpath "$imgui")"
    printf 'set(ASSAY_LIBTORCH_DIR "%s")\n' "$libtorch"
    printf 'set(ASSAY_CUDNN_FRONTEND_DIR "%s")\n' "$frontend"
    printf 'set(ASSAY_ARROW_DIR "%s")\n' "$arrow"
    printf 'set(ASSAY_NVCC "%s")\n' "$nvcc"
  } >"$out.new"
fi
if cmp -s "$out.new" "$out"; then rm "$out.new"; else mv "$out.new" "$out"; fi
say "Dependencies are ready."
