#!/usr/bin/env bash
# arm_test.sh SOURCE BUILD: compiles two of the library's tests for 64-bit ARM, into BUILD, with the kernels of the level
# neon-bf16, and runs a part of them on an emulated processor. `./fovea.sh test --arm` runs many more. Exit code 77:
# skipped, because the compiler, QEMU or GoogleTest's sources are missing.
set -euo pipefail
source=$1 build=$2
skip() { echo "skipped: $1"; exit 77; }
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$tool" >/dev/null || skip "no $tool: apt install g++-aarch64-linux-gnu qemu-user"
done
[ -f /usr/src/googletest/CMakeLists.txt ] || skip "no sources of GoogleTest: apt install googletest"
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64-linux-gnu.cmake" \
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DFOVEA_KERNEL_OPTIMISATION=-O1 -DFOVEA_LEVELS=neon-bf16 \
      -DFOVEA_LIBRARY_ONLY=ON -DFOVEA_TORCH=OFF -DFOVEA_TESTS=ON -DFOVEA_WERROR=ON >"$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
tests=(fovea_simd_test fovea_layer_test)
cmake --build "$build" --target "${tests[@]}" >"$build.log" 2>&1 || { tail -40 "$build.log"; exit 1; }
export QEMU_CPU=max
for test in "${tests[@]}"; do
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/bin/$test" --gtest_brief=1
done
# Processors without the products of bfloat16, or of bytes, do not get the level.
for processor in neoverse-n1 cortex-a72; do
  QEMU_CPU=$processor qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/bin/fovea_simd_test" --gtest_brief=1
done
