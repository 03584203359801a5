#include "fovea/tasks/language/generate.h"

#include <gtest/gtest.h>

#include "fovea/base/test_message.h"

namespace fovea::language::generate_test {
namespace {

TEST(GenerateText, SaysWhatIsWrongWithItsOptions) {
  GenerateOptions options;
  options.model = "m";
  validate(options);
  options.prompt = {"a"};
  validate(options);
  options.input = "prompts.txt";
  EXPECT_EQ(message_of([&] { validate(options); }),
            "--prompt: got prompts, and more in --input 'prompts.txt'; choose one of the two options");
  options.input = "-";
  options.precision = "int8";
  options.devices = "0";
  EXPECT_EQ(message_of([&] { validate(options); }),
            "--precision int8 runs on the CPU, but --devices is 0; use --devices cpu, or --precision bfloat16");
}

}  // namespace
}  // namespace fovea::language::generate_test
