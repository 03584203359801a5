#include "fovea/models/clause_tagger.h"

#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"

namespace fovea::models {
namespace {

constexpr std::string_view kPrefix = "clause-tagger.";
// The file of the task's name; the others are named as in the tagger's own checkpoint.
constexpr std::string_view kTaskFile = "task";

ClauseTaggerLoader& loader() {
  static ClauseTaggerLoader the_loader;
  return the_loader;
}

text::ClauseTagger make_tagger(const nn::Checkpoint& model, std::string_view option) {
  if (!loader()) throw Error(cat(option, ": this program has no tagging models"));
  return loader()(model, option);
}

}  // namespace

void set_clause_tagger_loader(ClauseTaggerLoader new_loader) { loader() = std::move(new_loader); }

std::map<std::string, std::string> clause_tagger_files(const std::string& model, std::string_view option) {
  if (model.empty()) return {};
  const nn::Checkpoint tagger = nn::load_checkpoint(model, nn::Load::kModel, option);
  make_tagger(tagger, option);  // says what is wrong before the training data are read
  std::map<std::string, std::string> files;
  const auto add = [&](std::string_view name, std::string contents) {
    files[cat(kPrefix, name)] = std::move(contents);
  };
  add(kTaskFile, tagger.identity.task);
  add(nn::kConfigFile, tagger.identity.config);
  add(nn::kModelFile, nn::print_safetensors(tagger.model));
  for (const auto& [name, contents] : tagger.identity.files) add(name, contents);
  return files;
}

std::optional<text::ClauseTagger> clause_tagger_of(const nn::Identity& identity) {
  nn::Checkpoint tagger;
  for (const auto& [name, contents] : identity.files)
    if (name.starts_with(kPrefix)) tagger.identity.files[name.substr(kPrefix.size())] = contents;
  if (tagger.identity.files.empty()) return std::nullopt;
  const auto take = [&](std::string_view name) {
    auto found = tagger.identity.files.extract(std::string(name));
    if (found.empty()) throw Error(cat(kPrefix, name, ": damaged: the file is missing"));
    return std::move(found.mapped());
  };
  tagger.identity.task = take(kTaskFile);
  tagger.identity.config = take(nn::kConfigFile);
  tagger.model = nn::parse_safetensors(take(nn::kModelFile), cat(kPrefix, nn::kModelFile));
  tagger.folder = "clause-tagger";
  return make_tagger(tagger, "clause-tagger");
}

}  // namespace fovea::models
