#include "fovea/models/translation/loaded_model.h"

#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/source_clauses.h"
#include "fovea/text/clause_flags.h"

namespace fovea::translation {
namespace {

struct VocabSource {
  std::string side;  // "source"
  std::string file;  // its name in the checkpoint
  std::string path;  // empty: that of the checkpoint
  int64_t expected;
};

text::Vocab load_vocab(const VocabSource& from, const models::TrainedModel& trained) {
  const std::string folder = trained.folder(), name = from.path.empty() ? cat(folder, "/", from.file) : from.path;
  const std::string& bytes = trained.file(from.file);
  text::Vocab vocab = from.path.empty() ? text::Vocab::from_bytes(bytes, name) : text::Vocab::load(from.path);
  if (vocab.size() != from.expected) {
    throw Error(cat(name, ": the ", from.side, " vocabulary has ", vocab.size(), " pieces, but the model in ", folder,
                    " was trained with ", from.expected, "; give the vocabulary of its training"));
  }
  if (!bytes.empty() && vocab.bytes() != bytes) {
    throw Error(cat(name, ": is not the ", from.side, " vocabulary of the model in ", folder,
                    "; leave --vocabs out, the model holds its own"));
  }
  vocab.clean_lines();
  return vocab;
}

EncoderDecoderConfig config_of(const models::TrainedModel& trained) {
  auto config = trained.config<EncoderDecoderConfig>();
  std::vector<std::string> sizes;
  for (const int64_t size : config.dim_vocabs) sizes.push_back(std::to_string(size));
  if (sizes.size() != 2 || config.dim_vocabs[0] < 1 || config.dim_vocabs[1] < 1) {
    throw Error(cat(trained.path(nn::kConfigFile), ": dim-vocabs: got [", join(sizes, ", "),
                    "]; expected the sizes of both vocabularies, each at least 1"));
  }
  return config;
}

}  // namespace

LoadedModel load_model(const ModelOptions& options, std::string_view option) {
  return load_model(models::TrainedModel(options, {kTask}, option), options.vocabs);
}

LoadedModel load_model(const models::TrainedModel& trained, const std::vector<std::string>& vocabs) {
  const EncoderDecoderConfig config = config_of(trained);
  const bool given = !vocabs.empty();
  text::Vocab source =
      load_vocab({"source", kSourceVocabFile, given ? vocabs[0] : "", config.dim_vocabs.at(0)}, trained);
  text::Vocab target =
      load_vocab({"target", kTargetVocabFile, given ? vocabs[1] : "", config.dim_vocabs.at(1)}, trained);
  nn::Model model = trained.with_weights(nn::Model(config, std::nullopt));
  if (config.clause_flags)
    text::add_clause_flags(source, models::clause_dictionary_of(trained.identity()), trained.path(kSourceVocabFile));
  if (uses_clauses(model->config()))
    model->split_clauses_by(models::clause_splitter(source, models::clause_source_of(trained.identity())));
  return {model, std::move(source), std::move(target)};
}

std::vector<int64_t> never_written(const text::Vocab& target, bool allow_unk) {
  std::vector<int64_t> tokens;
  if (!allow_unk) tokens.push_back(target.unk());
  // A user's symbol of that name has a text; the padding has none.
  const std::optional<int64_t> padding = target.find("<pad>");
  if (padding && target.surface(*padding).empty()) tokens.push_back(*padding);
  return tokens;
}

}  // namespace fovea::translation
