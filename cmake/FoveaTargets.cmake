# fovea_library(NAME [SHARED] [TORCH] [NO_TESTS] [NO_UNITY] [SOURCES ...] [LINK ...] [LINK_PRIVATE ...] [TEST_LINK ...])
#   A layer's library out of this folder: every *.cc but the tests, main.cc and program.cc, unless SOURCES names them.
#   Tests, *_test.cc, become one test program NAME_test. TORCH adds libtorch and the precompiled header;
#   NO_TESTS leaves the tests to another library of the folder; NO_UNITY compiles the files one by one.
function(fovea_library name)
  cmake_parse_arguments(ARG "SHARED;TORCH;NO_TESTS;NO_UNITY" "" "SOURCES;LINK;LINK_PRIVATE;TEST_LINK" ${ARGN})
  set(kind STATIC)
  if(ARG_SHARED)
    set(kind SHARED)
  endif()
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
    list(FILTER ARG_SOURCES EXCLUDE REGEX "_test\\.cc$|/(main|program)\\.cc$")
  endif()
  add_library(${name} ${kind} ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_LINK_PRIVATE} fovea_flags)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  if(NOT ARG_NO_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${FOVEA_UNITY})
  endif()
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC fovea_torch)
    target_precompile_headers(${name} REUSE_FROM fovea_torch_pch)
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(FOVEA_TESTS AND tests AND NOT ARG_NO_TESTS)
    fovea_test(${name}_test SOURCES ${tests} LINK ${name} ${ARG_TEST_LINK})
    if(ARG_TORCH)
      # Programs are compiled with -fPIE, the precompiled header with -fPIC: GCC refuses the mixture.
      target_compile_options(${name}_test PRIVATE -fPIC)
      target_precompile_headers(${name}_test REUSE_FROM fovea_torch_pch)
    endif()
  endif()
endfunction()

# fovea_isa_library(NAME [TILES ...] [LINK ...] [TEST_LINK ...])
#   A library of kernels out of this folder. Each *_isa.cc is compiled once per level of kernels/simd/isa.h: FOVEA_ISA is
#   its number, and the file itself switches the instruction set on for its own functions alone. Those of TILES, named
#   without that ending, are compiled for the levels with tiles too: emulated ones beside portable vectors, FOVEA_TILES
#   0, and Intel's beside those of level 3, FOVEA_TILES 1.
function(fovea_isa_library name)
  cmake_parse_arguments(ARG "" "" "TILES;LINK;TEST_LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "_isa\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_isa\\.cc$")
  set(levels 0)
  set(tiles 0)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(levels 0 1 2 3)
    set(tiles 0 1)
  endif()
  foreach(level ${levels})
    fovea_isa_objects(${name}_isa${level} SOURCES ${isa_sources} DEFINE FOVEA_ISA=${level} LINK ${ARG_LINK})
    list(APPEND sources $<TARGET_OBJECTS:${name}_isa${level}>)
  endforeach()
  if(ARG_TILES)
    list(TRANSFORM ARG_TILES APPEND _isa.cc)
    foreach(unit ${tiles})
      math(EXPR level "3 * ${unit}")
      fovea_isa_objects(${name}_tiles${unit} SOURCES ${ARG_TILES} DEFINE FOVEA_ISA=${level} FOVEA_TILES=${unit}
                        LINK ${ARG_LINK})
      list(APPEND sources $<TARGET_OBJECTS:${name}_tiles${unit}>)
    endforeach()
  endif()
  fovea_library(${name} NO_UNITY SOURCES ${sources} LINK ${ARG_LINK} TEST_LINK ${ARG_TEST_LINK})
endfunction()

# fovea_isa_objects(NAME SOURCES ... DEFINE ... [LINK ...]): files of kernels at one level.
function(fovea_isa_objects name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEFINE;LINK" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINE})
  # Vector types by value stay inside one level, so the ABI note (psabi) is moot; NaN and infinities keep their
  # meaning: no -ffast-math. GCC 12 takes its own _mm512_undefined_ps(), and the undefined operands inside its
  # reductions, for uninitialised variables.
  target_compile_options(${name} PRIVATE -O3 -fno-math-errno -fno-trapping-math -Wno-psabi -Wno-uninitialized)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fovea_flags)
endfunction()

# fovea_test(NAME SOURCES ... LINK ...): a GoogleTest program, run once by CTest.
function(fovea_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fovea_flags GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
endfunction()
