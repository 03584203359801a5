#include "fovea/base/strings.h"
#include "fovea/nn/safetensors_header.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/text/units.h"
#include "fovea/text/vocab.h"
#include "loaders/loaders.h"

// The readers of the files in the folder of a model or a run.
namespace fovea::fuzz {
namespace {

template <class Config>
void load_config(std::string_view bytes) {
  Config config;
  from_yaml(bytes, "config.yml", config);
  const std::string written = to_yaml(config);
  // YAML is Unicode text.
  if (!is_valid_utf8(bytes)) return;
  const Config again = must_load([&] {
    Config loaded;
    from_yaml(written, "written", loaded);
    return loaded;
  });
  Config copy = again;
  const std::vector<FieldView> before = field_views(config), after = field_views(copy);
  for (size_t i = 0; i < before.size(); ++i)
    require(values_of(before[i]) == values_of(after[i]), cat("--", before[i].name, " changes as it is written"));
}

bool are_equal(const nn::SafetensorsHeader& a, const nn::SafetensorsHeader& b) {
  return a.metadata == b.metadata && std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                                                [](const nn::SafetensorsEntry& x, const nn::SafetensorsEntry& y) {
                                                  return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape &&
                                                         x.begin == y.begin && x.end == y.end;
                                                });
}

}  // namespace

void load_yaml(std::string_view bytes) {
  try {
    load_config<EncoderDecoderConfig>(bytes);
    load_config<DecoderConfig>(bytes);
  } catch (const Error&) {
    load_config<TrainConfig>(bytes);
  }
}

void load_safetensors(std::string_view bytes) {
  const nn::SafetensorsHeader header = nn::parse_safetensors_header(bytes, "model.safetensors");
  std::string written = print_safetensors_header(header);
  written += bytes.substr(header.data_start);
  require(must_load([&] { return are_equal(nn::parse_safetensors_header(written, "written"), header); }),
          "the header changes as it is written");
}

void load_vocab(std::string_view bytes) {
  const text::Vocab vocab = text::Vocab::from_bytes(std::string(bytes), "source.spm");
  require(vocab.bytes() == bytes, "the vocabulary is not the file's");
  const std::string text = cat("The quick \u00e4\u0301\u00df \uff21\u4f60\u597d \xff", bytes.substr(bytes.size() / 2));
  const std::vector<int64_t> ids = vocab.encode(text);
  require(vocab.pieces(text).size() == ids.size(), "pieces and their numbers are not as many");
  for (const int64_t id : ids) require(id >= 0 && id < vocab.size(), "a number of no piece");
  vocab.decode(ids);
  for (int64_t id = 0; id < vocab.size(); ++id) vocab.decode({id, vocab.eos(), id});
  const text::Units units = must_load([&] { return text::Units::from_file("units.spm", std::string(bytes)); });
  std::vector<int32_t> as_units;
  units.encode(text, as_units);
  units.decode(std::vector<int64_t>(as_units.begin(), as_units.end()));
  for (int64_t id = 0; id < units.size(); ++id) units.decode(std::vector<int64_t>{id, id});
}

}  // namespace fovea::fuzz
