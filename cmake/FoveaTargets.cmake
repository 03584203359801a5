# fovea_library(NAME [SHARED] [TORCH] [OUTER] [NO_TESTS] [NO_UNITY] [SOURCES ...] [LINK ...] [LINK_PRIVATE ...] [TEST_LINK ...])
#   A layer's library out of this folder: every *.cc but the tests, main.cc and program.cc, unless SOURCES names them.
#   Tests, *_test.cc, become one test program NAME_test. TORCH adds libtorch and the precompiled header, and leaves the
#   sources out that the library fovea_torch_free has; OUTER: code that calls others to do the work, a fifth quicker to
#   compile at -O1; NO_TESTS leaves the tests to another library; NO_UNITY compiles
#   the files one by one.
function(fovea_library name)
  cmake_parse_arguments(ARG "SHARED;TORCH;OUTER;NO_TESTS;NO_UNITY" "" "SOURCES;LINK;LINK_PRIVATE;TEST_LINK" ${ARGN})
  set(kind STATIC)
  if(ARG_SHARED)
    set(kind SHARED)
  endif()
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
    list(FILTER ARG_SOURCES EXCLUDE REGEX "_test\\.cc$|/(main|program)\\.cc$")
  endif()
  get_property(torch_free GLOBAL PROPERTY fovea_torch_free)
  if(ARG_TORCH AND torch_free)
    list(REMOVE_ITEM ARG_SOURCES ${torch_free})
  endif()
  add_library(${name} ${kind} ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_LINK_PRIVATE} fovea_flags)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  if(NOT ARG_NO_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${FOVEA_UNITY})
  endif()
  if(ARG_OUTER)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC fovea_torch)
    target_precompile_headers(${name} REUSE_FROM fovea_torch_pch)
  endif()
  set(torch "")
  if(ARG_TORCH)
    set(torch TORCH)
  endif()
  if(ARG_NO_TESTS)
    return()
  endif()
  fovea_library_tests(${name} ${name}_test FOLDER ${CMAKE_CURRENT_SOURCE_DIR} LINK ${ARG_TEST_LINK} ${torch})
endfunction()

# fovea_library_tests(LIBRARY NAME FOLDER folder [TORCH] [LINK ...]): the test program NAME of a folder's *_test.cc, if
# it has any and tests are built.
function(fovea_library_tests library name)
  cmake_parse_arguments(ARG "TORCH" "FOLDER" "LINK" ${ARGN})
  file(GLOB tests CONFIGURE_DEPENDS ${ARG_FOLDER}/*_test.cc)
  if(NOT FOVEA_TESTS OR NOT tests)
    return()
  endif()
  if(ARG_TORCH)
    list(APPEND tests ${PROJECT_SOURCE_DIR}/tests/one_thread.cc)
  endif()
  set(headers fovea_test_pch)
  if(ARG_TORCH)
    set(headers fovea_torch_test_pch)
  endif()
  fovea_test(${name} SOURCES ${tests} LINK ${library} ${ARG_LINK} HEADERS ${headers})
endfunction()

# fovea_precompiled(NAME LINK ... HEADERS <header>...): headers that other targets take by REUSE_FROM NAME.
function(fovea_precompiled name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  # Written once: a new source at every configuration would be compiled at every build.
  string(REPLACE "fovea_" "${PROJECT_BINARY_DIR}/" source ${name}.cc)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "")
  endif()
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fovea_flags)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# fovea_isa_library(NAME [TILES ...] [LINK ...] [TEST_LINK ...])
#   A library of kernels out of this folder. Each *_isa.cc is compiled once per built level (FoveaLevels): FOVEA_ISA is
#   its number, and the file itself switches the instruction set on for its own functions alone. Those of TILES, named
#   without that ending, are compiled for the levels with tiles too: Intel's beside the vectors of level 3, FOVEA_TILES
#   1, and for tests alone emulated ones beside portable vectors, FOVEA_TILES 0.
function(fovea_isa_library name)
  cmake_parse_arguments(ARG "" "" "TILES;LINK;TEST_LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  set(isa_sources ${sources})
  list(FILTER isa_sources INCLUDE REGEX "_isa\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_isa\\.cc$")
  set(tiles "")
  if(FOVEA_EMULATED_TILES)
    set(tiles 0)
  endif()
  if(FOVEA_BUILT_TILES)
    list(APPEND tiles 1)
  endif()
  foreach(level ${FOVEA_BUILT_LEVELS})
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
      if(unit EQUAL 0)
        # Nobody waits for emulated tiles, and they take twice as long to compile at -O3.
        target_compile_options(${name}_tiles0 PRIVATE -O2)
      endif()
    endforeach()
  endif()
  fovea_library(${name} NO_UNITY SOURCES ${sources} LINK ${ARG_LINK} LINK_PRIVATE fovea_emulated_tiles fovea_levels
                TEST_LINK ${ARG_TEST_LINK} fovea_levels)
endfunction()

set(FOVEA_KERNEL_OPTIMISATION -O3 CACHE STRING "Option of the compiler for the kernels")
# fovea_isa_objects(NAME SOURCES ... DEFINE ... [LINK ...]): files of kernels at one level.
function(fovea_isa_objects name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEFINE;LINK" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_compile_definitions(${name} PRIVATE ${ARG_DEFINE})
  # CMake 4 writes the language before the options and CMake 3 behind them: to the compiler cache these are two commands,
  # and the build of the Python package, by pip's CMake, would not find the objects of another build. So the language is one of these options.
  set_property(TARGET ${name} PROPERTY CXX_STANDARD)
  set_property(TARGET ${name} PROPERTY CXX_EXTENSIONS)
  # Vector types by value stay inside one level, so the ABI note (psabi) is moot; NaN and infinities keep their
  # meaning: no -ffast-math. GCC 12 takes its own _mm512_undefined_ps(), and the undefined operands inside its
  # reductions, for uninitialised variables.
  target_compile_options(${name} PRIVATE -std=c++20 ${FOVEA_KERNEL_OPTIMISATION} -fno-math-errno -fno-trapping-math -Wno-psabi -Wno-uninitialized)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fovea_kernel_flags)
endfunction()

# fovea_test(NAME SOURCES ... LINK ... [HEADERS target]): a GoogleTest program, run once by CTest, with the precompiled
# headers of that target.
function(fovea_test name)
  cmake_parse_arguments(ARG "" "HEADERS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} fovea_emulated_tiles fovea_flags GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${FOVEA_UNITY})
  # The tests' own code runs once.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1> -Wno-psabi)
  if(ARG_HEADERS)
    # Programs are compiled with -fPIE, the precompiled headers with -fPIC: GCC refuses the mixture.
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
  if(CMAKE_CROSSCOMPILING)
    fovea_emulated_test(${name})
  endif()
endfunction()

# fovea_emulated_test(NAME): how much of a test runs on an emulated processor, which takes 10 to 30 times as long: of the
# kernels' cases every FOVEA_TEST_EVERY-th, and nothing that would take minutes or asks nothing of the processor.
set(FOVEA_TEST_EVERY 60 CACHE STRING "On emulated processors, of the cases of attention kernels one in so many runs")
set(FOVEA_EMULATED_ONLY "" CACHE STRING "On emulated processors, the tests that run, as for --gtest_filter (empty: all but the longest)")
set(emulated_left_out KernelTestSuite.* Laws.OfEverySpec Oracle.*FiniteDifferences Kernels/EveryKernel.GivesTheSameBits/*bfloat16*
    Screening.TakesHardRows Screening.TakesWideRows Screening.GivesTheSameBits* Levels/RowsTest.* Levels/RowsParts.AddUpOverHeads/*
    Levels/Dense.ReluAddsUp* Levels/Dense.OthersLeaveOut* Levels/DenseBf16.*BelowTheNormalRange/* Levels/Guesses.*)
list(JOIN emulated_left_out ":" emulated_left_out)
function(fovea_emulated_test name)
  set(filter "${FOVEA_EMULATED_ONLY}")
  if(NOT filter)
    set(filter "-${emulated_left_out}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 3600 ENVIRONMENT "FOVEA_TEST_EVERY=${FOVEA_TEST_EVERY};GTEST_FILTER=${filter}")
endfunction()

# fovea_embed(LIBRARY NAME HEADER header NAMESPACE namespace CONSTANT file... [CONSTANT file...]...)
#   Adds a source to the library that defines each CONSTANT, a std::string_view that `header` declares, as the text of
#   its files, one after the other. The constants' names begin with k.
function(fovea_embed library name)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "" ${ARGN})
  set(definitions "")
  set(open FALSE)
  foreach(item ${ARG_UNPARSED_ARGUMENTS})
    if(item MATCHES "^k[A-Z][A-Za-z]*$")
      if(open)
        string(APPEND definitions ";\n")
      endif()
      string(APPEND definitions "const std::string_view ${item} =\n")
      set(open TRUE)
    else()
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${item})
      file(READ ${item} text)
      string(APPEND definitions "R\"fovea(${text})fovea\"\n")
    endif()
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT
       "// Made by CMake.\n#include \"${ARG_HEADER}\"\n\nnamespace ${ARG_NAMESPACE} {\n\n@definitions@;\n\n}\n" @ONLY)
  target_sources(${library} PRIVATE ${source})
endfunction()
