#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/trained_model.h"
#include "fovea/models/translation/names.h"
#include "fovea/nn/model.h"
#include "fovea/spec/run_options.h"
#include "fovea/text/vocab.h"

namespace fovea::translation {

struct LoadedModel {
  nn::Model model;
  text::Vocab source, target;
};

// The model of an opened checkpoint (trained_model.h), which splits its source into clauses if it needs them. `vocabs`
// are the source's and the target's files, or none for those of the checkpoint; they read lines cleaned
// (text::Vocab::clean_lines). Throws an Error if they are not those of the model's training.
LoadedModel load_model(const models::TrainedModel& trained, const std::vector<std::string>& vocabs = {});
LoadedModel load_model(const ModelOptions& options, std::string_view option = "--model");

// Tokens that translations never contain: <pad>, which has a row in models of Hugging Face's, and <unk> unless it is
// allowed.
std::vector<int64_t> never_written(const text::Vocab& target, bool allow_unk);

}  // namespace fovea::translation
