#include "fovea/base/program_name.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(ProgramName, IsAPathOnlyIfTheUserGaveOne) {
  set_program_name("./fovea");
  EXPECT_EQ(program_name(), "./fovea");
  set_program_name("/opt/it's here/fovea");
  EXPECT_EQ(program_name(), "'/opt/it'\\''s here/fovea'");
  for (const char* called : {"other-name", "fovea", ""}) {
    set_program_name(called);
    EXPECT_EQ(program_name(), "fovea");
  }
}

}  // namespace
}  // namespace fovea
