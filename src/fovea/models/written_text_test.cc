#include "fovea/models/written_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "fovea/base/test_folder.h"

namespace fovea::models::written_text_test {
namespace {

TEST(WrittenText, IsPrintedInTheFormThatWasAskedFor) {
  const TestFolder folder;
  const std::vector<WrittenText> best = {{"ein Haus", -1.25, -0.5}, {"Haus", -2, -1}};
  const auto printed = [&](const BeamConfig& form) {
    LineWriter output(folder / "out");
    print_texts(output, form, 7, best);
    output.close();
    return read_file(folder / "out");
  };
  BeamConfig form;
  EXPECT_EQ(printed(form), "ein Haus\n");
  form.scores = true;
  EXPECT_EQ(printed(form), "-0.500000 ||| ein Haus\n");
  form.n_best = true;
  EXPECT_EQ(printed(form),
            "7 ||| ein Haus ||| F0= -1.250000 ||| -0.500000\n7 ||| Haus ||| F0= -2.000000 ||| -1.000000\n");
}

}  // namespace
}  // namespace fovea::models::written_text_test
