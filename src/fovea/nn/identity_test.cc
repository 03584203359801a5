#include "fovea/nn/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>

#include "fovea/base/fields.h"
#include "fovea/spec/stack_config.h"

namespace fovea::nn::identity_test {
namespace {

struct Stack : StackConfig {
  std::string decoder_start;
  static auto fields() {
    return std::tuple_cat(stack_fields(),
                          std::tuple(norm_epsilon_field(), field("decoder-start", &Stack::decoder_start, "")));
  }
};

// A new field of all models is of one of these kinds: it decides what weights mean, it shows in their shapes, or a
// model may learn on with another value.
TEST(Identity, EveryFieldOfAStackIsOfAKnownKind) {
  constexpr std::array<std::string_view, 5> kInShapes = {"dim-emb", "transformer-heads-kv", "transformer-dim-ffn",
                                                         "index-heads", "index-width"};
  Stack config;
  int meaning = 0;
  for (const FieldView& field : field_views(config)) {
    const bool is_free = field.name.starts_with("transformer-dropout") || field.name.starts_with("routing-") ||
                         field.name.starts_with("span-") || field.name == "index-candidates";
    const bool is_in_shapes = std::ranges::find(kInShapes, field.name) != kInShapes.end();
    const bool decides = decides_meaning_of_weights(field.name);
    EXPECT_EQ((decides ? 1 : 0) + (is_free ? 1 : 0) + (is_in_shapes ? 1 : 0), 1) << field.name;
    meaning += decides ? 1 : 0;
  }
  EXPECT_EQ(meaning, 7) << "a name in the list is no field";
}

}  // namespace
}  // namespace fovea::nn::identity_test
