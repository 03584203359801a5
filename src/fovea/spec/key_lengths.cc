#include "fovea/spec/key_lengths.h"

#include <string>
#include <variant>
#include <vector>

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/layer_override.h"

namespace fovea {
namespace {

int64_t length_of(const KeyLengths& lengths, Sublayer sublayer) {
  if (sublayer == Sublayer::kEncoder) return lengths.encoder;
  return sublayer == Sublayer::kDecoder ? lengths.decoder : lengths.cross;
}

// The text with the biases that it lacks; a text that lacks none stays as it is.
std::string text_with_biases(const std::string& text, Sublayer sublayer, const KeyLengths& lengths) {
  const LayerSpec spec = parse_layer_spec(text);
  if (!lacks_bias(spec)) return text;
  const int64_t length = length_of(lengths, sublayer);
  if (length == 0)
    throw UsageError(cat("--attention: got '", text, "' for the ", name_of(sublayer), ", where no option limits the ",
                         "number of keys to set the bias of sigmoid by; give the number, such as ",
                         print(with_bias(spec, 1024)), " for 1,024 keys"));
  std::string complete = print(with_bias(spec, length));
  log::info(cat("[model] attention '", text, "' becomes '", complete, "', for up to ", thousands(length), " keys"));
  return complete;
}

}  // namespace

void set_biases(ModelConfig& config, const KeyLengths& lengths) {
  for (std::string& entry : config.attention_layers) {
    const LayerOverride layers = read_layer_override(entry, config);
    entry = cat(entry.substr(0, entry.find('=') + 1), text_with_biases(layers.spec, layers.sublayer, lengths));
  }
  std::vector<Sublayer> shared;  // those that --attention is for
  for (const Sublayer sublayer : sublayers_of(config)) {
    std::string& own = config.*option_of(sublayer);
    own.empty() ? shared.push_back(sublayer) : static_cast<void>(own = text_with_biases(own, sublayer, lengths));
  }
  if (shared.empty() || !lacks_bias(parse_layer_spec(config.attention))) return;
  std::vector<std::string> options;
  bool is_one_length = true;
  for (const Sublayer sublayer : shared) {
    options.push_back(cat("--attention-", name_of(sublayer)));
    is_one_length &= length_of(lengths, sublayer) == length_of(lengths, shared.front());
  }
  if (!is_one_length)
    throw UsageError(cat("--attention: got '", config.attention,
                         "', whose bias is -ln(greatest length), for sublayers ",
                         "of several lengths; give each its own by ", join(options, ", ")));
  config.attention = text_with_biases(config.attention, shared.front(), lengths);
}

bool completes(const std::string& complete, const std::string& open) {
  const auto place = [](const std::string& text) {  // of the mechanism in an entry WHERE.LAYERS=SPEC
    const size_t equals = text.find('='), dot = text.find('.'), parenthesis = text.find('(');
    return dot < equals && equals != std::string::npos && equals < parenthesis ? equals + 1 : 0;
  };
  const size_t begin = place(open);
  if (place(complete) != begin || complete.compare(0, begin, open, 0, begin) != 0) return false;
  try {
    const LayerSpec whole = parse_layer_spec(complete.substr(begin));
    LayerSpec filled = parse_layer_spec(open.substr(begin));
    if (!lacks_bias(filled) || lacks_bias(whole) || filled.size() != whole.size()) return false;
    for (size_t i = 0; i < whole.size(); ++i)
      if (lacks_bias(filled[i].spec) && std::holds_alternative<Sigmoid>(whole[i].spec.transform))
        filled[i].spec.transform = whole[i].spec.transform;
    return filled == whole;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace fovea
