#!/usr/bin/env bash
# One script for a newcomer and for developers: ./fovea.sh help
set -euo pipefail
readonly caller=$PWD
for folder in Torch_DIR FOVEA_DATA; do # relative ones count from where the caller is
  [ -z "${!folder:-}" ] || export "$folder=$(realpath -m -- "${!folder}")"
done
CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"

readonly torch_version=2.13.0
readonly build=build/release
# libprotobuf-dev: Debian 13's sentencepiece.pc names it without depending on it.
readonly library_packages=(
  g++ cmake ninja-build ccache python3 python3-dev python3-venv ca-certificates libgmock-dev libgtest-dev)
readonly packages=(
  "${library_packages[@]}" pkg-config libboost-iostreams-dev libcli11-dev libfmt-dev libicu-dev libprotobuf-dev
  libminizip-dev libpng-dev libpugixml-dev libsentencepiece-dev libspdlog-dev libxxhash-dev libyaml-cpp-dev libzstd-dev
  nlohmann-json3-dev zlib1g-dev)
# What compiles for 64-bit ARM and runs it, and the sources of GoogleTest.
readonly arm_packages=(cmake ninja-build ccache python3 g++-aarch64-linux-gnu qemu-user googletest)

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
fail() { printf 'Error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "installing packages needs root: run as root, or install sudo"; fi
}

# Debian packages that are missing, and no others.
need_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null || { say "no dpkg here: expecting the libraries of fovea.sh's package list to be installed"; return; }
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  as_root apt-get update -q || say "the package lists could not be refreshed; trying with the old ones"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# With pip: making one may have been interrupted. Options are venv's.
need_venv() {
  .venv/bin/python3 -m pip --version >/dev/null 2>&1 || .venv/bin/python3 -m ensurepip >/dev/null 2>&1 || python3 -m venv "$@" .venv
}

# libtorch out of pip's torch, in .venv, unless Torch_DIR names one.
need_torch() {
  if [ -n "${Torch_DIR:-}" ]; then
    [ -f "$Torch_DIR/TorchConfig.cmake" ] || fail "Torch_DIR: no TorchConfig.cmake in '$Torch_DIR'; name the folder that holds it"
    return
  fi
  need_venv
  .venv/bin/python3 -c "import torch, sys; sys.exit(torch.__version__.split('+')[0] != '$torch_version')" 2>/dev/null && return
  say "installing libtorch $torch_version into .venv"
  # The index of pip's settings may or may not carry the CPU build, which is a tenth of the size.
  .venv/bin/python3 -m pip install --disable-pip-version-check "torch==$torch_version+cpu" ||
    .venv/bin/python3 -m pip install --disable-pip-version-check "torch==$torch_version" ||
    fail "pip could not install torch==$torch_version; set PIP_INDEX_URL to an index that has it, or Torch_DIR to a libtorch"
}

prepare() {
  need_packages "${packages[@]}"
  need_torch
}

# A preset, then options of cmake. Torch_DIR of an earlier call would stay in CMake's cache.
configure() {
  local libtorch=-UTorch_DIR
  [ -z "${Torch_DIR:-}" ] || libtorch=-DTorch_DIR=$Torch_DIR
  mkdir -p build
  cmake --preset "$1" "$libtorch" "${@:2}" >build/configure.log 2>&1 ||
    { cat build/configure.log >&2; fail "cmake failed; its output is above and in build/configure.log"; }
}

# What a release build has. here: the program, with kernels for this machine's instructions and plain ones. any: with
# those for every machine. bench: with the benchmarks too. test: with the tests and benchmarks, and kernels for all that
# this machine has. all: the same with those for every machine.
parts_of() {
  case $1 in
    here) echo -DFOVEA_LEVELS=native -DFOVEA_TESTS=OFF -DFOVEA_BENCH=OFF ;;
    any) echo -DFOVEA_LEVELS=all -DFOVEA_TESTS=OFF -DFOVEA_BENCH=OFF ;;
    bench) echo -DFOVEA_LEVELS=all -DFOVEA_TESTS=OFF -DFOVEA_BENCH=ON ;;
    test) echo -DFOVEA_LEVELS=runnable -DFOVEA_TESTS=ON -DFOVEA_BENCH=ON ;;
    all) echo -DFOVEA_LEVELS=all -DFOVEA_TESTS=ON -DFOVEA_BENCH=ON ;;
  esac
}

# compile PARTS [BUILD OPTIONS]: all of these parts, or what is named, as in compile here --target fovea
compile() {
  local parts
  read -ra parts <<<"$(parts_of "$1")"
  say "building into $build"
  configure release "${parts[@]}"
  cmake --build --preset release "${@:2}"
  [ ! -e "$build/bin/fovea" ] || ln -sfn "$build/bin/fovea" fovea
}

# --mpi: the library that trains in several processes needs an MPI.
build() {
  local parts=here
  while true; do
    case ${1:-} in
      --mpi) need_packages libopenmpi-dev openmpi-bin ;;
      --all) parts=all ;;
      *) break ;;
    esac
    shift
  done
  prepare
  compile $parts "$@"
}

# Peers that check our numbers; the tests that need one say so when it is missing.
need_test_packages() {
  need_venv --system-site-packages
  local stamp=.venv/test-packages wanted=python/requirements-test.txt
  cmp -s "$wanted" "$stamp" && return
  say "installing the test packages of $wanted"
  if .venv/bin/python3 -m pip install -q --disable-pip-version-check -r "$wanted"; then cp "$wanted" "$stamp"
  else say "pip could not install them; the tests against other projects will be skipped, each saying so"; fi
}

# Reasons as GoogleTest, unittest and pytest write them, which CTest keeps to its log.
tell_skips() {
  [ -f "$1" ] || return 0
  awk '/: Skipped$/ { getline; print "skipped: " $0 } /^(skipped: |SKIPPED \[)/ || / skipped \047/' "$1"
}

# libgomp's threads spin for milliseconds while they wait, which takes the time of other programs' threads and of their
# own. fovea sets this itself; the test programs and PyTorch need it from outside.
shorten_spins() { [ -n "${GOMP_SPINCOUNT+set}${OMP_WAIT_POLICY+set}" ] || export GOMP_SPINCOUNT=5000; }

# The library alone: attention, its kernels and operators, and the Python package.
test_library() {
  need_packages "${library_packages[@]}"
  need_torch
  need_test_packages
  say "building into build/library"
  configure library
  cmake --build --preset library
  shorten_spins
  ctest --preset library --parallel "$(nproc)" "$@"
}

# The library's tests without libtorch on emulated ARM processors: one with products of bytes, one with all that QEMU
# knows, those of bfloat16 too, and one with neither (a Raspberry Pi 4's), where the levels' choice is what can differ.
test_arm() {
  need_packages "${arm_packages[@]}"
  say "building into build/arm"
  configure arm
  cmake --build --preset arm
  local processor failed=0
  for processor in neoverse-n1 max; do
    say "testing on an emulated $processor"
    QEMU_CPU=$processor ctest --preset arm --parallel "$(nproc)" "$@" || failed=1
  done
  say "testing on an emulated cortex-a72"
  QEMU_CPU=cortex-a72 ctest --preset arm --parallel "$(nproc)" --tests-regex 'fovea_(simd|layer)_test' || failed=1
  [ $failed = 0 ] || exit 1
}

# Without options all tests but those of the label slow, which take minutes and serve releases; with --all every test, and
# the fuzz targets; with CTest's options the tests that they name.
run_tests() {
  if [ "${1:-}" = --library ]; then test_library "${@:2}"; return; fi
  if [ "${1:-}" = --arm ]; then test_arm "${@:2}"; return; fi
  local chosen=("$@") parts=test
  if [ $# -eq 0 ]; then chosen=(--label-exclude '^slow$'); fi
  if [ "${1:-}" = --all ]; then chosen=("${@:2}") parts=all; fi
  prepare
  need_test_packages
  if [ $parts = all ]; then (need_packages "${arm_packages[@]}") || say "no tests for ARM: their packages are missing"; fi
  compile $parts
  say "testing"
  [ -n "${FOVEA_DATA:-}" ] || say "FOVEA_DATA is not set: the test on real text is skipped"
  shorten_spins
  local failed=0 log=build/release/Testing/Temporary/LastTest.log
  rm -f "$log"
  # Most tests use one thread, and many wait for the disk. Options of the caller come later and win.
  ctest --preset release --parallel "$(($(nproc) + 1))" "${chosen[@]}" || failed=1
  tell_skips "$log"
  [ $# -gt 0 ] || say "left out: tests of headers, of experiments and of packages in empty environments, and the fuzz targets; ./fovea.sh test --all runs them too"
  [ $failed = 0 ] || exit 1
  if [ $parts = all ]; then fuzz_if_possible; fi
}

# A preset of CMakePresets.json, then CTest's options.
sanitize() {
  local preset=$1
  shift
  need_packages "${packages[@]}"
  [ "$preset" != asan-torch ] || need_torch
  configure "$preset"
  cmake --build --preset "$preset" && ctest --preset "$preset" "$@"
}

# Python's tests with the package's library under the sanitizers, whose runtimes Python itself is not linked with.
asan_python() {
  need_packages "${packages[@]}"
  need_torch
  need_test_packages
  configure asan-torch
  cmake --build --preset asan-torch --target fovea_python
  local name runtimes=()
  for name in asan ubsan stdc++; do runtimes+=("$("${CXX:-c++}" "-print-file-name=lib$name.so")"); done
  [ $# -gt 0 ] || set -- python/tests
  LD_PRELOAD="${runtimes[*]}" ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 PYTHONPATH=python \
    FOVEA_LIBRARY="$PWD/build/asan-torch/lib/libfovea_python.so" .venv/bin/python3 python/tests/run.py "$@"
}

run_fuzz() {
  cmake --preset fuzz >/dev/null && cmake --build --preset fuzz --target fuzz_targets &&
    ctest --preset fuzz --parallel "$(nproc)" "$@"
}

# clang and its libraries of sanitizers, which only Debian's package names tie together.
need_clang() {
  need_packages clang
  need_packages "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
}

fuzz() {
  need_packages "${packages[@]}"
  need_clang
  run_fuzz "$@"
}

links_fuzzers() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ - -o build/probe 2>/dev/null
}

fuzz_if_possible() {
  if (need_clang) && links_fuzzers; then
    say "fuzzing briefly, from a fixed seed"
    run_fuzz
  else
    say "no fuzzing: clang with libFuzzer is not here and could not be installed"
  fi
}

sources() {
  git ls-files --cached --others --exclude-standard '*.h' '*.cc' 2>/dev/null ||
    fail "the sources are those that git knows, and this is no clone; run it in one"
}

format() {
  need_packages clang-format
  local files
  files=$(sources)
  xargs clang-format -i <<<"$files"
}

lint() {
  local files chosen
  files=$(sources)
  # The fuzz targets and the consumer of the installed package are not in the list of commands.
  chosen=$(grep '\.cc$' <<<"$files" | grep -v -e ^fuzz/ -e ^tests/consumer/ | grep -E -- "${1:-.}") ||
    fail "lint: no source matches '$1'; expected an expression as grep -E has it, such as kernels/layer"
  prepare
  need_packages clang-format clang-tidy
  xargs clang-format --dry-run --Werror <<<"$files"
  configure dev
  # clang reads neither GCC's precompiled headers nor all of its warnings' names.
  local database=build/lint
  mkdir -p "$database"
  sed -E 's/-include [^ ]*cmake_pch\.hxx//g; s/-W[a-z][^ ]*//g' build/dev/compile_commands.json >"$database/compile_commands.json"
  xargs -P "$(nproc)" -n 4 clang-tidy -p "$database" --quiet <<<"$chosen"
}

bench() {
  prepare
  need_test_packages
  .venv/bin/python3 -c 'import torch' 2>/dev/null ||
    fail "bench: .venv has no torch, the peer; run it without Torch_DIR, or install into .venv the torch of that libtorch"
  compile bench
  local here=$PWD
  cd "$caller"
  exec "$here/.venv/bin/python3" "$here/bench/run.py" "$@"
}

demo() {
  local recipe=demo
  if [ "${1:-}" = language ]; then recipe=demo-language; shift; fi
  FOVEA_DEMO_CHECK=1 "./recipes/$recipe.sh" "$@"
  say "first packages and a build, which take minutes once; then the text, a training of minutes, the results"
  build --target fovea
  FOVEA_DEMO_BUILD=$SECONDS exec "./recipes/$recipe.sh" "$@"
}

install_tree() {
  [ $# -eq 1 ] && [ -n "$1" ] && [[ $1 != -* ]] ||
    fail "install: got $# arguments${1:+, '$1' the first}; expected the PREFIX to install under, as in ./fovea.sh install ~/fovea"
  prepare
  compile any
  cmake --install "$build" --prefix "$(cd "$caller" && realpath -m -- "$1")"
}

package() {
  [ "$(uname -m)" = x86_64 ] || fail "package: got a processor of type $(uname -m); expected x86-64; install a tree instead: ./fovea.sh install PREFIX"
  prepare
  compile any
  need_packages patchelf binutils xz-utils
  say "packing; the libraries take a minute or two"
  python3 packaging/make_package.py "$build" dist
}

# For 64-bit ARM: compiled here with the headers of this machine's torch, which are the same, and checked, not tried.
wheel_for_arm() {
  [ $# -eq 1 ] && [ "$1" = aarch64 ] || fail "wheel --arch: got '$*'; expected aarch64 and nothing more"
  need_packages cmake ninja-build ccache python3 python3-venv g++-aarch64-linux-gnu
  need_torch
  local headers
  if [ -n "${Torch_DIR:-}" ]; then headers=$Torch_DIR/../../../include
  else headers=$(.venv/bin/python3 -c 'import torch; print(torch.__path__[0])')/include; fi
  say "building into build/arm-wheel"
  configure arm-wheel "-DFOVEA_TORCH_INCLUDE=$(realpath "$headers")"
  cmake --build --preset arm-wheel --target fovea_python
  python3 packaging/make_wheel.py --for aarch64 build/arm-wheel/lib/libfovea_python.so dist
}

# The wheel takes the library of the release's build. Arguments are versions of torch to test it with.
wheel() {
  if [ "${1:-}" = --arch ]; then wheel_for_arm "${@:2}"; return; fi
  prepare
  need_test_packages
  compile any --target fovea_python
  shorten_spins
  .venv/bin/python3 packaging/make_wheel.py "$build/lib/libfovea_python.so" dist "$@"
}

usage() {
  cat <<'TEXT'
Usage: ./fovea.sh VERB

  demo [LANGUAGE] [TRAIN OPTIONS]  install what is missing, build, train English to LANGUAGE (de), translate, score
  demo language [TRAIN OPTIONS]    the same with a language model: train, measure bits per byte, generate text
  test [--all|--library|--arm] [CTEST OPTIONS]
                                   install what is missing, build, run the tests, as CI does;
                                   --all: kernels for every machine, tests of headers, of experiments and of packages in
                                   empty environments, and fuzz targets too;
                                   --library: the library alone, attention without tasks and program, in minutes;
                                   --arm: its part without libtorch, on emulated 64-bit ARM
  build [--mpi] [--all] [BUILD OPTIONS]
                                   install what is missing, build the program ./fovea, with kernels for this machine
                                   (options of cmake --build); --mpi: training by several processes too; --all: also
                                   kernels for every machine, tests and benchmarks, as for test --all
  bench [OPTIONS]                  measure against other systems; prints Markdown, writes CSV
  install PREFIX                   a relocatable tree with the program, the library and its CMake package
  package                          dist/fovea-VERSION-linux-x86_64.tar.xz and a .deb, which run without a build
  wheel [TORCH...]                 dist/fovea-VERSION-py3-none-manylinux_*.whl, for any torch from 2.10 on and any Python,
                                   tested in empty environments; TORCH: versions to test with, '2.10.*' or newest
  wheel --arch aarch64             the wheel for 64-bit ARM, compiled and checked here, not tried
  format, lint [REGEX]             clang-format the sources; check them with clang-format and clang-tidy
  asan, asan-torch [CTEST OPTIONS] AddressSanitizer and UBSan: the layers without torch; those that need it
  asan-python [PYTEST OPTIONS]     the same, on the library of the Python package with Python's tests
  tsan, fuzz [CTEST OPTIONS]       ThreadSanitizer on executors and readers; the fuzz targets

Torch_DIR names a libtorch to use instead of pip's; pip's own variables choose its index.
TEXT
}

main() {
  local verb=${1:-help}
  [ $# -gt 0 ] && shift
  case $verb:${1:-} in
    bench:-h | bench:--help) exec python3 bench/run.py --help ;;
    *:-h | *:--help) verb=help ;;
  esac
  case $verb in
    build) build "$@" ;;
    test) run_tests "$@" ;;
    demo) demo "$@" ;;
    bench) bench "$@" ;;
    install) install_tree "$@" ;;
    package) package ;;
    wheel) wheel "$@" ;;
    format) format ;;
    lint) lint "$@" ;;
    asan | asan-torch | tsan) sanitize "$verb" "$@" ;;
    asan-python) asan_python "$@" ;;
    fuzz) fuzz "$@" ;;
    help | -h | --help) usage ;;
    *) usage >&2; fail "unknown verb '$verb'" ;;
  esac
}
main "$@"
