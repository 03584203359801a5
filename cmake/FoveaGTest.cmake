# GoogleTest, precompiled once for all tests.
find_package(GTest REQUIRED)
fovea_precompiled(fovea_test_pch LINK GTest::gtest GTest::gmock HEADERS <gtest/gtest.h> <gmock/gmock.h>)
