#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/fields.h"
#include "fovea/spec/run_options.h"

// Gathers the problems of a configuration, so that one message names all of them.
namespace fovea {

// The names of the fields whose values differ from those of a default-made configuration.
template <class Config>
std::vector<std::string_view> changed_fields(Config config) {
  Config defaults;
  const std::vector<FieldView> ours = field_views(config), theirs = field_views(defaults);
  std::vector<std::string_view> names;
  for (size_t i = 0; i < ours.size(); ++i)
    if (values_of(ours[i]) != values_of(theirs[i])) names.push_back(ours[i].name);
  return names;
}

class Problems {
 public:
  void add(std::string sentence) { sentences_.push_back(std::move(sentence)); }
  // Adds the sentence when `wrong`.
  void add_if(bool wrong, std::string sentence) {
    if (wrong) add(std::move(sentence));
  }
  // Runs `check` and takes the Error it throws, after "--name: ".
  void add_thrown_by(std::string_view name, auto&& check) {
    try {
      check();
    } catch (const Error& error) {
      add("--" + std::string(name) + ": " + error.what());
    }
  }
  // Adds that `files` of --name are not two, one of each language.
  void add_unless_two_sides(std::string_view name, const std::vector<std::string>& files);
  // Values outside the range or the choices of their fields.
  template <class Config>
  void add_ranges(const Config& config) {
    Config copy = config;
    for (const FieldView& field : field_views(copy)) add_range(field);
  }
  // Throws a UsageError with everything added, in one line; an attention spec's caret follows when it is the only
  // problem.
  void throw_if_any() const;

 private:
  void add_range(const FieldView& field);
  std::vector<std::string> sentences_;
};

// Add the problems of the options that every command that computes with a model has, and of those with a trained model.
void add_machine_problems(const MachineOptions& options, Problems& problems);
void add_model_problems(const TrainedModelOptions& options, Problems& problems);
void add_model_problems(const ModelOptions& options, Problems& problems);  // --vocabs are of two sides

}  // namespace fovea
