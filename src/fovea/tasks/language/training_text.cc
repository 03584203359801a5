#include "fovea/tasks/language/training_text.h"

#include <string>

#include "fovea/base/choices.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/kept_text.h"
#include "fovea/data/token_text.h"
#include "fovea/tasks/encoding_threads.h"

namespace fovea::language {
namespace {

std::string encoding_of(const text::Units& units, data::Documents documents) {
  std::string text = cat("units ", units.size(), " documents ", static_cast<int>(documents));
  for (const auto& [name, content] : units.files()) text += cat(" ", name, " ", checksum(content));
  return text;
}

// The </s> behind documents is a unit besides the 256 bytes, so a text of one document takes a byte for each of its
// own.
int64_t most_units(const text::Units& units, data::Documents documents) {
  return units.is_bytes() && documents == data::Documents::kNo ? units.size() - 1 : units.size();
}

}  // namespace

std::unique_ptr<data::UnitSource> load_training_text(const TrainConfig& train, const Options& options,
                                                     const LanguageConfig& config, const text::Units& units) {
  const auto documents = parse_choice<data::Documents>(data::kDocumentsNames, config.documents, "--documents: got");
  const data::TokenTextOptions text = {
      .documents = documents, .threads = tasks::encoding_threads(train), .option = "--train-sets", .trains = true};
  const int64_t held = units.is_bytes() ? sizeof(int32_t) : 1;
  const std::string folder = data::folder_of_encoded(options.encoded_text, options.train_sets, held);
  if (folder.empty()) return std::make_unique<data::TokenText>(data::load_token_text(options.train_sets, units, text));
  return data::keep_text(
      data::KeptText<data::UnitShape>{.paths = options.train_sets,
                                      .folder = folder,
                                      .option = "--encoded-text",
                                      .encoding = encoding_of(units, documents),
                                      .shape = {most_units(units, documents)}},
      [&](data::UnitSink& sink) { return data::encode_units(options.train_sets, units, text, sink).report; });
}

}  // namespace fovea::language
