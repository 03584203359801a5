#include "fovea/nn/model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/nn/test_models.h"

namespace fovea::nn::model_test {
namespace {

using namespace testing;

// Every positional mechanism is refused on cross-attention, where its stages alone are used.
struct Specs {
  std::string self, cross;
};

std::vector<Specs> all_specs() {
  std::vector<Specs> all;
  for (const std::string& self : self_specs()) {
    const size_t stage = self.find('+');
    if (stage == std::string::npos || self.find(';') != std::string::npos) {
      all.push_back({self, self == "random(3)" ? self : "full"});
    } else if (self.find("keep") != std::string::npos) {
      all.push_back({self, self.starts_with("full") ? "topk(2)" : "random(2)+topk(1)"});
    } else {
      all.push_back({self, (self.starts_with("full") ? "full" : "random(4)") + self.substr(stage)});
    }
  }
  all.push_back({"2*window(2);1*topk(2)", "1*topk(1);2*sparsemax"});
  all.push_back({"1*entmax(learned);1*full;1*relu", "1*random(2);2*entmax(learned)"});
  all.push_back({"1*entmax(learned);1*sink;1*topk(2)+sink", "1*random(2);2*sink"});
  all.push_back({"1*window(3)+softcap(0.5);2*softcap(0.3)+topk(2)", "2*softcap(0.5);1*full"});
  all.push_back({"2*window(3)+gate;1*topk(2)+gate", "topk(2)+gate(head)"});
  return all;
}

ModelConfig with(const Specs& specs, const std::string& norm) {
  ModelConfig config = tiny();
  const bool is_routed = specs.self.find("routed") != std::string::npos;  // which transformer-xl does not go with
  if (norm == "post" && specs.self.starts_with("dsa")) {
    config.transformer_positions = "learned+rotary";  // whose indexer goes with no positions on scores
  } else if (norm == "post") {
    config.transformer_positions =
        is_routed ? "learned+shaw(2,values)+alibi" : "learned+shaw(2,values)+transformer-xl(clamp=3)+alibi";
  }
  if (norm == "pre") {  // the newer options go with one of the two
    config.transformer_positions = "rotary";
    config.transformer_norm_kind = "rms";
    config.transformer_ffn_activation = "swiglu";
    if (!is_routed) config.transformer_heads_kv = 1;
  }
  config.attention_encoder = config.attention_decoder = specs.self;
  config.attention_cross = specs.cross;
  config.transformer_norm = norm;
  return config;
}

TEST(EncoderDecoder, StepByStepIsTheFullPass) {
  // Rows of equal lengths, three of the first sentence, one of the second, two of the third.
  const std::vector<int64_t> sentences = {0, 0, 0, 1, 2, 2};
  constexpr int64_t kLength = 7;
  const Packed source = random_batch({5, 1, 7}, 17, 1);
  const Packed target = random_batch(std::vector<int64_t>(sentences.size(), kLength), 19, 2);
  std::vector<int64_t> repeated_offsets = {0};
  std::vector<at::Tensor> repeated;
  for (const int64_t s : sentences) {
    const int64_t begin = source.offsets[s].item<int64_t>(), end = source.offsets[s + 1].item<int64_t>();
    repeated.push_back(source.tokens.slice(0, begin, end));
    repeated_offsets.push_back(repeated_offsets.back() + end - begin);
  }
  const Packed by_row{at::cat(repeated), torch::tensor(repeated_offsets, at::kLong)};
  bool pre = false;
  for (const Specs& specs : all_specs()) {
    pre = !pre;
    SCOPED_TRACE("self " + specs.self + " cross " + specs.cross);
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      Model model = make(with(specs, pre ? "pre" : "post"), type);
      const at::Tensor expected = full_pass(model, by_row, target).view({-1, kLength, 12});
      const torch::NoGradGuard guard;
      auto state = model->start({model->encode({source.tokens, source.offsets}, {}), source.offsets}, sentences,
                                model->pack(ops::PrepackedLayer::Format::kExact));
      // Sums of some hundred numbers near 1 in another order: in double, and in float, where the fast kernels run.
      const double bound = type == at::kDouble ? 1e-11 : 1e-4;
      for (int64_t t = 0; t < kLength; ++t) {
        const at::Tensor hidden = state->step(target.tokens.view({-1, kLength}).select(1, t).contiguous());
        EXPECT_LT((hidden - expected.select(1, t)).abs().max().item<double>(), bound) << type << " step " << t;
      }
    }
  }
}

// Histories chosen by hand: rows multiply, cross over within a sentence, and leave.
TEST(EncoderDecoder, ReorderedRowsContinueTheirParents) {
  Model model = make(with({"topk(3)", "full"}, "pre"));
  const Packed source = random_batch({4, 6}, 17, 5);
  const at::Tensor memory = model->encode({source.tokens, source.offsets}, {}).detach();
  auto state = model->start({memory, source.offsets}, {0, 1}, model->pack(ops::PrepackedLayer::Format::kExact));
  const std::vector<std::vector<int64_t>> parents = {{0, 1},          {0, 0, 0, 1, 1, 1}, {2, 0, 2, 5, 4, 5},
                                                     {1, 1, 0, 3, 5}, {4, 3, 4},          {1, 1, 2, 0}};
  std::vector<std::vector<int64_t>> histories(2);
  std::vector<int64_t> sentences = {0, 1};
  Rng rng(9);
  for (size_t t = 0; t < parents.size(); ++t) {
    // Rows stay in the order of their sentences.
    std::vector<int64_t> chosen = parents[t];
    std::ranges::stable_sort(chosen, {}, [&](int64_t p) { return sentences[static_cast<size_t>(p)]; });
    if (t > 0) state->reorder(chosen);
    std::vector<std::vector<int64_t>> next;
    std::vector<int64_t> next_sentences, tokens;
    for (const int64_t p : chosen) {
      next.push_back(histories[static_cast<size_t>(p)]);
      next_sentences.push_back(sentences[static_cast<size_t>(p)]);
      tokens.push_back(static_cast<int64_t>(rng.below(19)));
      next.back().push_back(tokens.back());
    }
    histories = next;
    sentences = next_sentences;
    const at::Tensor hidden = state->step(torch::tensor(tokens, at::kLong));
    for (size_t r = 0; r < histories.size(); ++r) {
      const auto length = static_cast<int64_t>(histories[r].size());
      const int64_t s = sentences[r], begin = source.offsets[s].item<int64_t>(),
                    end = source.offsets[s + 1].item<int64_t>();
      const Packed alone{source.tokens.slice(0, begin, end), torch::tensor({int64_t{0}, end - begin}, at::kLong)};
      const Packed target{torch::tensor(histories[r], at::kLong), torch::tensor({int64_t{0}, length}, at::kLong)};
      const at::Tensor expected = full_pass(model, alone, target)[length - 1];
      EXPECT_LT((hidden[static_cast<int64_t>(r)] - expected).abs().max().item<double>(), 1e-11);
    }
  }
}

TEST(EncoderDecoder, ADecoderReadsWhatItsEncoderMadeAndNoOther) {
  const Packed text = random_batch({3}, 17, 1);
  Model both = make(tiny()), decoder = make(tiny_decoder());
  EXPECT_THROW(both->decode({text.tokens, text.offsets}, {}), c10::Error);
  const at::Tensor encoded = both->encode({text.tokens, text.offsets}, {});
  EXPECT_THROW(decoder->decode({text.tokens, text.offsets, encoded, text.offsets}, {}), c10::Error);
}

// A configuration of both sides has two vocabularies, unless the encoder reads vectors.
TEST(EncoderDecoder, TakesTheSizesOfItsVocabulariesAlone) {
  EncoderDecoderConfig config = tiny();
  config.dim_vocabs = {17};
  EXPECT_THROW(Model(config, 1), c10::Error);
  EXPECT_NO_THROW(Model(config, 1, MediaInput{.vectors = {.width = 4}}));
  config.dim_vocabs = {17, 19};
  EXPECT_THROW(Model(config, 1, MediaInput{.vectors = {.width = 4}}), c10::Error);
  config.tied_embeddings_all = true;
  EXPECT_THROW(Model(config, 1), c10::Error) << "one table for two sizes";
}

}  // namespace
}  // namespace fovea::nn::model_test
