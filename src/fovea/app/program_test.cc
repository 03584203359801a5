#include "fovea/app/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "fovea/app/commands.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::app::program_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// An exit code and the line of standard error.
struct Ending {
  int code = 0;
  std::string line;
};

template <class Thrown>
Ending ending_of(const Thrown& thrown) {
  testing::internal::CaptureStderr();
  const int code = guarded([&]() -> int { throw thrown; });
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(Program, ExceptionsBecomeExitCodesAndOneLine) {
  EXPECT_EQ(guarded([] { return 7; }), 7);
  const Ending usage = ending_of(UsageError("--x: wrong")), error = ending_of(Error("--y: wrong"));
  EXPECT_EQ(usage.code, 2);
  EXPECT_THAT(usage.line, HasSubstr("Error: --x: wrong\n"));
  EXPECT_EQ(error.code, 1);
  EXPECT_THAT(error.line, HasSubstr("Error: --y: wrong\n"));
  const Ending memory = ending_of(std::bad_alloc());
  EXPECT_EQ(memory.code, 1);
  EXPECT_THAT(memory.line, HasSubstr("out of memory"));
  const Ending allocator = ending_of(std::runtime_error("[enforce fail] DefaultCPUAllocator: can't allocate memory"));
  EXPECT_EQ(allocator.code, 1);
  EXPECT_THAT(allocator.line, HasSubstr("out of memory"));
  const Ending type = ending_of(std::runtime_error("\"addmm_cuda\" not implemented for 'BFloat16'\n#0 frame"));
  EXPECT_EQ(type.code, 1);
  EXPECT_THAT(type.line, HasSubstr("numbers of the type BFloat16;"));
  const Ending bug = ending_of(std::runtime_error("a bug\n#0 stack frame"));
  EXPECT_EQ(bug.code, 1);
  EXPECT_THAT(bug.line, HasSubstr("internal: a bug\n"));
  EXPECT_THAT(bug.line, Not(HasSubstr("stack frame")));
  const Ending threads = ending_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_EQ(threads.code, 1);
  EXPECT_THAT(threads.line, HasSubstr("--cpu-threads"));
  EXPECT_THROW(guarded([]() -> int { throw NeedsTorch(); }), NeedsTorch);
}

TEST(Program, ACommandRunsAfterTheCall) {
  int calls = 0;
  testing::internal::CaptureStdout();
  EXPECT_EQ(run({"spec", "window(2)", "--length", "3", "--causal"}, [&] { ++calls; }), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "window(2)\n#..\n##.\n.##\n") << "docs/options.md";
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace fovea::app::program_test
