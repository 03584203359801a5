// Milliseconds of each step of a whole language model of bytes (4 layers of 256, 4 heads, feed-forward blocks of 1,024,
// rotary positions, random weights) over caches of a given length, the choice of the next byte included: JSON. Usage:
// decoder_steps ATTENTION STREAMS KEYS STEPS [model|bfloat16|int8] [float32|bfloat16], the last two those of the cache
// and of the weights. The keys come from random bytes, which the model reads in pieces of 256 first.
#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "arguments.h"
#include "fovea/base/malloc.h"
#include "fovea/kernels/layer/top_n.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/model.h"
#include "fovea/ops/attention.h"
#include "fovea/search/beam.h"
#include "made_tokens.h"

namespace fovea {
namespace {

constexpr int64_t kVocabulary = 257, kEnd = 256, kPiece = 256;

struct Setting {
  std::string attention;
  int64_t streams, keys, steps;
  nn::CacheType cache;
  at::ScalarType precision;
};

// Reads `keys` random bytes of each stream.
void fill(nn::Stepper& state, const Setting& setting, Rng& rng) {
  for (int64_t done = 0; done < setting.keys; done += kPiece) {
    const int64_t count = std::min(kPiece, setting.keys - done);
    const at::Tensor tokens = bench::made_tokens(setting.streams * count, kEnd, rng);
    std::vector<int64_t> offsets(static_cast<size_t>(setting.streams + 1));
    for (size_t r = 0; r < offsets.size(); ++r) offsets[r] = static_cast<int64_t>(r) * count;
    state.prefill(tokens, nn::index_tensor(offsets));
  }
}

std::vector<double> times(const Setting& setting) {
  const c10::InferenceMode guard;
  DecoderConfig config;
  config.dim_emb = 256, config.dec_depth = 4, config.transformer_heads = 4, config.transformer_dim_ffn = 1024;
  config.transformer_norm = "pre", config.transformer_norm_kind = "layer", config.transformer_ffn_activation = "gelu",
  config.transformer_positions = "rotary";
  config.dim_vocabs = {kVocabulary};
  config.attention = setting.attention;
  nn::Model model(config, 1);
  model->to(setting.precision);
  model->eval();
  const ops::PrepackedLayer output(model->output_weight().to(at::kFloat),
                                   model->output_bias().defined() ? model->output_bias().to(at::kFloat) : at::Tensor());
  const auto state = model->start(setting.streams, model->pack(), nn::StepRows::kApart, {}, setting.cache);
  Rng rng(1);
  fill(*state, setting, rng);
  std::vector<int64_t> tokens(static_cast<size_t>(setting.streams), 1);
  std::vector<double> all;
  for (int64_t i = 0; i < setting.steps + 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor hidden = state->step(nn::index_tensor(tokens));
    kernels::Continuations next;
    output.next_words(hidden.to(at::kFloat), {.n = 1, .eos = kEnd}, next);
    for (size_t r = 0; r < tokens.size(); ++r) tokens[r] = next.best[r].token;
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
    if (i >= 2) all.push_back(passed.count());
  }
  return all;
}

Setting setting_of(int argc, char** argv) {
  constexpr int64_t kMost = 1'000'000;
  if (argc < 5 || argc > 7)
    throw UsageError(cat("got ", argc - 1, " arguments, expected ATTENTION STREAMS KEYS STEPS [cache] [precision]"));
  const std::string cache = argc > 5 ? argv[5] : "model", precision = argc > 6 ? argv[6] : "float32";
  const bool is_known = (cache == "model" || cache == "bfloat16" || cache == "int8") &&
                        (precision == "float32" || precision == "bfloat16");
  if (!is_known)
    throw UsageError(
        cat("got '", cache, "' and '", precision, "', expected ", nn::kCacheTypes, " and float32|bfloat16"));
  return {.attention = argv[1],
          .streams = bench::whole_number(argv[2], "streams", kMost),
          .keys = bench::whole_number(argv[3], "keys", kMost),
          .steps = bench::whole_number(argv[4], "steps", kMost),
          .cache = cache == "int8"       ? nn::CacheType::kInt8
                   : cache == "bfloat16" ? nn::CacheType::kBFloat16
                                         : nn::CacheType::kModel,
          .precision = precision == "bfloat16" ? at::kBFloat16 : at::kFloat};
}

void run(int argc, char** argv) {
  std::string list;
  for (const double ms : times(setting_of(argc, argv))) list += cat(list.empty() ? "" : ", ", ms);
  std::printf("{\"ms\": [%s]}\n", list.c_str());
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  return fovea::bench::exit_status("decoder_steps", [&] {
    fovea::tune_malloc();
    fovea::run(argc, argv);
  });
}
