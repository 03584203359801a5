#include <algorithm>
#include <charconv>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/marian.h"

namespace fovea::models {
namespace {

using Options = std::map<std::string, std::vector<std::string>>;

// Values of an option that leave the model one of ours.
struct Accepted {
  std::string_view option;
  std::vector<std::string_view> values;
};

// Options that decide what a Transformer computes. Others are of other architectures or of training alone.
const std::vector<Accepted>& accepted_options() {
  static const std::vector<Accepted> accepted = {
      {"type", {"transformer"}},
      {"transformer-decoder-autoreg", {"self-attention", "rnn"}},
      {"transformer-rnn-projection", {"false"}},
      {"transformer-ffn-depth", {"2"}},
      {"transformer-decoder-ffn-depth", {"0", "2"}},
      {"transformer-ffn-activation", {"relu", "gelu", "swish"}},
      {"transformer-preprocess", {"", "d", "n"}},
      {"transformer-postprocess", {"da", "dan", "a", "an"}},
      {"transformer-postprocess-emb", {"", "d"}},
      {"transformer-postprocess-top", {"", "n"}},
      {"transformer-no-projection", {"false", "true"}},
      {"transformer-no-bias", {"false"}},
      {"transformer-no-affine", {"false"}},
      {"transformer-pool", {"false"}},
      {"transformer-train-position-embeddings", {"false"}},
      {"transformer-train-positions", {"false"}},
      {"transformer-disable-position-embeddings", {"false"}},
      {"transformer-attention-mask", {"default"}},
      {"right-left", {"false"}},
      {"output-omit-bias", {"false"}},
      {"ulr", {"false"}},
      {"lemma-dim-emb", {"0"}},
      {"lemma-dependency", {""}},
      {"concat-factors", {"false"}},
      {"factors-combine", {"sum"}},
      {"input-types", {"sequence"}},
  };
  return accepted;
}

class Reader {
 public:
  Reader(const Options& options, const std::string& origin) : options_(options), origin_(origin) {}

  std::string word(const std::string& name, const std::string& usual) const {
    const auto found = options_.find(name);
    return found == options_.end() || found->second.empty() ? usual : found->second.front();
  }
  bool truth(const std::string& name) const { return word(name, "false") == "true"; }
  // A whole number of at least 1; without `usual` it must be there.
  int64_t number(const std::string& name, std::optional<int64_t> usual = {}) const {
    const std::string text = word(name, usual ? std::to_string(*usual) : "");
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > int64_t{1} << 30)
      fail(name, text, "a whole number above 0");
    return value;
  }
  double rate(const std::string& name) const {
    const std::string text = word(name, "0");
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 0.99))
      fail(name, text, "a rate from 0 to 0.99");
    return value;
  }
  [[noreturn]] void fail(std::string_view name, std::string_view got, std::string_view expected) const {
    throw Error(cat(origin_, ": ", name, ": got '", got, "'; expected ", expected));
  }
  const std::vector<std::string>* list(const std::string& name) const {
    const auto found = options_.find(name);
    return found == options_.end() ? nullptr : &found->second;
  }

 private:
  const Options& options_;
  const std::string& origin_;
};

void require_accepted(const Reader& reader) {
  for (const Accepted& option : accepted_options()) {
    const std::vector<std::string>* values = reader.list(std::string(option.option));
    if (values == nullptr) continue;
    for (const std::string& value : *values) {
      if (std::ranges::find(option.values, value) != option.values.end()) continue;
      std::vector<std::string> known;
      for (const std::string_view name : option.values) known.push_back(cat("'", name, "'"));
      reader.fail(option.option, value, cat(join(known, " or "), ", as our models compute"));
    }
  }
  if (reader.word("transformer-decoder-autoreg", "self-attention") != "rnn") return;
  const std::string cell = reader.word("dec-cell", "gru");
  if (cell != "ssru") reader.fail("dec-cell", cell, "'ssru' beside transformer-decoder-autoreg: rnn");
  if (reader.truth("layer-normalization"))
    reader.fail("layer-normalization", "true", "'false' beside transformer-decoder-autoreg: rnn");
}

// Norms before each block, or after its residual.
std::string norm_of(const Reader& reader) {
  const std::string before = reader.word("transformer-preprocess", ""),
                    after = reader.word("transformer-postprocess", "dan"),
                    top = reader.word("transformer-postprocess-top", "");
  const bool is_pre = before.ends_with('n'), is_post = after.ends_with('n');
  if (is_pre == is_post)
    reader.fail("transformer-postprocess", after,
                is_pre ? "no norm after a block that has one before it" : "a norm before each block or after it");
  if (is_pre != top.ends_with('n'))
    reader.fail("transformer-postprocess-top", top,
                is_pre ? "'n' beside norms before the blocks" : "'' beside norms after the blocks");
  return is_pre ? "pre" : "post";
}

}  // namespace

EncoderDecoderConfig parse_marian_options(const Options& options, const std::string& origin) {
  const Reader reader(options, origin);
  require_accepted(reader);
  EncoderDecoderConfig config;
  config.transformer_norm = norm_of(reader);
  config.transformer_norm_kind = "layer";
  config.dim_emb = reader.number("dim-emb");
  config.enc_depth = reader.number("enc-depth");
  config.dec_depth = reader.number("dec-depth");
  config.transformer_heads = reader.number("transformer-heads", 8);
  config.transformer_dim_ffn = reader.number("transformer-dim-ffn", 2048);
  const std::string decoder_ffn = reader.word("transformer-decoder-dim-ffn", "0");
  if (decoder_ffn != "0" && decoder_ffn != std::to_string(config.transformer_dim_ffn))
    reader.fail("transformer-decoder-dim-ffn", decoder_ffn, cat("that of the encoder, ", config.transformer_dim_ffn));
  config.transformer_ffn_activation =
      marian_has_scaled_swish(options) ? "swish" : reader.word("transformer-ffn-activation", "swish");
  config.transformer_dropout = reader.rate("transformer-dropout");
  config.transformer_dropout_attention = reader.rate("transformer-dropout-attention");
  config.transformer_dropout_ffn = reader.rate("transformer-dropout-ffn");
  config.tied_embeddings_all = reader.truth("tied-embeddings-all");
  config.tied_embeddings_src = reader.truth("tied-embeddings-src") && !config.tied_embeddings_all;
  config.tied_embeddings = reader.truth("tied-embeddings") && !config.tied_embeddings_all;
  config.transformer_positions = "sinusoidal(first=0)";
  config.decoder_start = "zeros";
  if (reader.word("transformer-decoder-autoreg", "self-attention") == "rnn")
    config.transformer_decoder_autoreg = "ssru";
  config.norm_epsilon = 1e-6;
  const std::vector<std::string>* sizes = reader.list("dim-vocabs");
  if (sizes == nullptr || sizes->size() != 2)
    reader.fail("dim-vocabs", sizes == nullptr ? "" : join(*sizes, " "), "the sizes of two vocabularies");
  for (size_t i = 0; i < 2; ++i) {
    int64_t& size = config.dim_vocabs.at(i);
    const std::string& text = sizes->at(i);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size() || size < 1)
      reader.fail("dim-vocabs", text, "a size above 0");
  }
  return config;
}

std::vector<int64_t> marian_tied_layers(const Options& options, const std::string& origin) {
  const Reader reader(options, origin);
  const std::vector<std::string>* texts = reader.list("transformer-tied-layers");
  if (texts == nullptr || texts->empty()) return {};
  const int64_t depth = reader.number("dec-depth");
  std::vector<int64_t> tied;
  for (const std::string& text : *texts) {
    int64_t& layer = tied.emplace_back();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
    if (error != std::errc() || end != text.data() + text.size() || layer < 1 || layer > std::ssize(tied))
      reader.fail("transformer-tied-layers", join(*texts, " "),
                  "for each layer of the decoder itself or one before it");
  }
  if (std::ssize(tied) != depth)
    reader.fail("transformer-tied-layers", join(*texts, " "), cat("a layer for each of the ", depth));
  return tied;
}

bool marian_has_scaled_swish(const Options& options) {
  return Reader(options, "").word("transformer-ffn-activation", "swish") == "gelu";
}

bool marian_omits_projections(const Options& options) { return Reader(options, "").truth("transformer-no-projection"); }

}  // namespace fovea::models
