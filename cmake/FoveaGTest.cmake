# GoogleTest, precompiled once for all tests.
if(CMAKE_CROSSCOMPILING)
  # Packages hold it compiled for this machine; Debian's package googletest has its sources.
  set(FOVEA_GTEST_SOURCES /usr/src/googletest CACHE PATH "folder of GoogleTest's sources, for other machines")
  add_subdirectory(${FOVEA_GTEST_SOURCES} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  foreach(name gtest gmock gtest_main)
    if(NOT TARGET GTest::${name})
      add_library(GTest::${name} ALIAS ${name})
    endif()
  endforeach()
else()
  find_package(GTest REQUIRED)
endif()
fovea_precompiled(fovea_test_pch LINK GTest::gtest GTest::gmock HEADERS <gtest/gtest.h> <gmock/gmock.h>)
