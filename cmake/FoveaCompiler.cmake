# One place for the language, the warnings, the sanitizers and the compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
# Which targets are compiled as units is decided at each (FOVEA_UNITY).
set(CMAKE_UNITY_BUILD OFF)
# Files of a unit: with 8, the same code takes a quarter longer to compile; a unit of 16 takes up to 2.7 GB of memory.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# The kernels alone ask for -O3.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# The precompiled header carries its own macros, so ccache must be told to look past the file's time.
find_program(FOVEA_CCACHE ccache)
set(ccache_works 1)
if(FOVEA_CCACHE)  # not where its folder can't be written
  file(WRITE ${PROJECT_BINARY_DIR}/ccache_probe.cc "")
  execute_process(COMMAND ${FOVEA_CCACHE} ${CMAKE_CXX_COMPILER} -c ${PROJECT_BINARY_DIR}/ccache_probe.cc -o ${PROJECT_BINARY_DIR}/ccache_probe.o
                  RESULT_VARIABLE ccache_works OUTPUT_QUIET ERROR_QUIET)
endif()
if(ccache_works EQUAL 0)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${FOVEA_CCACHE})
endif()

add_library(fovea_flags INTERFACE)
target_compile_options(fovea_flags INTERFACE
  $<$<BOOL:${FOVEA_WERROR}>:-Werror>
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual
  # GCC collects garbage from 128 MB on, which the precompiled headers exceed before a file begins: a tenth of the time of
  # the files that need libtorch. From 2 GB on (counted in kB) the largest of them takes 2.7 GB, not 2.3.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=2000000>
  # GCC 12 reports moved-from std::string and std::variant members as uninitialised, and accesses in libtorch's headers
  # as out of bounds.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>)
target_include_directories(fovea_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # char is signed, as on x86. GCC would fuse any product with the sum that takes it, here or there as it sees fit: only
  # what calls a fused multiply-add is one.
  target_compile_options(fovea_flags INTERFACE -fsigned-char -ffp-contract=off)
endif()
get_target_property(plain_options fovea_flags INTERFACE_COMPILE_OPTIONS)
if(FOVEA_SANITIZE)
  target_compile_options(fovea_flags INTERFACE -fsanitize=${FOVEA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(fovea_flags INTERFACE -fsanitize=${FOVEA_SANITIZE})
endif()
# For the kernels of each instruction set. Without sanitizers they are compiled as in a release, so that the compiler
# cache has them.
if(FOVEA_SANITIZE AND NOT FOVEA_SANITIZE_KERNELS)
  target_compile_options(fovea_flags INTERFACE -O1)
  add_library(fovea_kernel_flags INTERFACE)
  target_compile_options(fovea_kernel_flags INTERFACE ${plain_options})
  target_include_directories(fovea_kernel_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
else()
  add_library(fovea_kernel_flags ALIAS fovea_flags)
endif()
