#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fovea/analysis/run_curves.h"
#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/program_name.h"
#include "fovea/base/shell_word.h"
#include "fovea/base/strings.h"
#include "fovea/data/value_file.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/nn/safetensors_header.h"
#include "fovea/spec/run_files.h"
#include "fovea/text/language_files.h"
#include "fovea/train/run_record.h"

namespace fovea::app {
namespace {
namespace fs = std::filesystem;

struct InfoConfig {
  bool all = false, json = false;

  static constexpr auto fields() {
    return std::tuple(field("all", &InfoConfig::all, "every fact: options of the model, best values, sizes of files"),
                      field("json", &InfoConfig::json, "every fact as one JSON object"));
  }
};

// Facts by name, in the order of printing; values are texts, numbers or lists of them.
using Facts = nlohmann::ordered_json;

// A scalar of a configuration: a number if it is one whole, else text.
Facts scalar_fact(const std::string& text) {
  const Facts number = Facts::parse(text, nullptr, /*allow_exceptions=*/false);
  return number.is_number() || number.is_boolean() ? number : Facts(text);
}

Facts fact_of(const YAML::Node& node) {
  if (!node.IsSequence()) return scalar_fact(node.IsScalar() ? node.Scalar() : "");
  Facts list = Facts::array();
  for (const YAML::Node& item : node) list.push_back(fact_of(item));
  return list;
}

// Fields without a value, such as an --attention-encoder that is not set, are left out.
bool says_nothing(const Facts& value) { return value == "" || (value.is_array() && value.empty()); }

void add_configuration(const nn::Identity& identity, const std::string& origin, Facts& facts) {
  try {
    for (const auto& field : YAML::Load(identity.config)) {
      Facts value = fact_of(field.second);
      if (!says_nothing(value)) facts[field.first.Scalar()] = std::move(value);
    }
  } catch (const YAML::Exception& e) {
    throw Error(cat(origin, ": damaged: it is not YAML: ", e.what()));
  }
}

nn::SafetensorsHeader header_of(const fs::path& path) {
  // A named pipe in a stranger's folder would never open.
  std::error_code none_there;
  if (!fs::is_regular_file(path, none_there))
    throw Error(cat(path.string(), ": is missing, or not a regular file; expected the file of a checkpoint"));
  const data::ValueFile file(path);
  const std::string begin = file.begin(nn::safetensors_head_bytes(file.begin(nn::kSafetensorsLengthBytes)));
  return nn::parse_safetensors_header(begin, path.string(), file.size());
}

// Values in the weights' file, which are the parameters and what a model keeps beside them, such as centroids.
void add_weights(const fs::path& checkpoint, Facts& facts) {
  uint64_t values = 0, bytes = 0;
  Facts types = Facts::array();
  for (const nn::SafetensorsEntry& entry : header_of(checkpoint / nn::kModelFile).entries) {
    bytes += entry.end - entry.begin;
    values += (entry.end - entry.begin) / nn::safetensors_element_size(entry.dtype);
    if (std::ranges::find(types, Facts(entry.dtype)) == types.end()) types.push_back(entry.dtype);
  }
  facts["parameters"] = values;
  facts["weights"] = types.size() == 1 ? types.front() : types;
  facts["weight bytes"] = bytes;
}

// The run that holds a checkpoint; an empty path if none does, as for the folder of an average.
fs::path run_of(const fs::path& checkpoint) {
  std::error_code unknown;
  const fs::path folder = fs::canonical(checkpoint, unknown).parent_path();
  return !unknown && folder.filename() == nn::kCheckpointsFolder ? folder.parent_path() : fs::path();
}

void add_data(const fs::path& run, int64_t updates, Facts& facts) {
  const std::map<std::string, std::string> options = train::recorded_options(run, updates);
  for (const char* name : {"train-sets", "valid-sets"}) {
    const auto found = options.find(name);
    if (found != options.end() && !found->second.empty()) facts[name] = found->second;
  }
}

// How far the run of a checkpoint is, which may be further than the checkpoint, and the limit of its updates.
void add_run(const fs::path& run, Facts& facts) {
  const std::optional<int64_t> last = nn::linked_updates(run, nn::kLastLink);
  if (!last) return;
  facts["run updates"] = *last;
  const std::map<std::string, std::string> options = train::recorded_options(run, *last);
  const auto limit = options.find("after-batches");
  if (limit != options.end()) facts["after-batches"] = scalar_fact(limit->second);
}

// A value, the updates after which it was found, and the seconds of training until then if they are known.
void add_best(const std::string& measure, const Facts& value, const Facts& updates, Facts& facts) {
  facts[cat("best ", measure)] = value;
  facts[cat("best ", measure, " updates")] = updates;
}

// The best values by the run's record, which has those of a validation at the end of the run too.
void add_recorded_best(const fs::path& run, Facts& facts) {
  const fs::path record = run / kRunRecordFile;
  std::error_code unknown;
  if (!fs::is_regular_file(record, unknown)) return;
  for (const analysis::RunCurve& curve : analysis::parse_run_curves(read_file(record), record.string())) {
    for (const analysis::CurvePoint& point : curve.points) {
      if (curve.best != point.updates) continue;
      add_best(curve.name, point.value, point.updates, facts);
      facts[cat("best ", curve.name, " seconds")] = point.seconds;
    }
  }
}

// Adds the facts that a training left beside the weights; none for an average or a converted model.
void add_training(const fs::path& checkpoint, Facts& facts) {
  std::error_code unknown;
  const fs::path path = checkpoint / nn::kProgressFile;
  if (!fs::is_regular_file(path, unknown)) return;
  const std::map<std::string, std::string> progress = nn::parse_map(read_file(path), path.string());
  const auto add = [&](const std::string& name, const std::string& entry) {
    const auto found = progress.find(entry);
    if (found != progress.end()) facts[name] = scalar_fact(found->second);
  };
  add("updates", nn::kUpdatesEntry);
  add("epoch", "epoch");
  for (const auto& [name, value] : progress) {
    if (!name.starts_with(nn::kBestEntry)) continue;
    const std::string measure = name.substr(nn::kBestEntry.size());
    const auto updates = progress.find(cat(nn::kBestUpdatesEntry, measure));
    add_best(measure, scalar_fact(value), updates == progress.end() ? Facts() : scalar_fact(updates->second), facts);
  }
  const fs::path run = run_of(checkpoint);
  if (run.empty()) return;
  add_recorded_best(run, facts);
  add_run(run, facts);
  const auto updates = facts.find("updates");
  add_data(run, updates != facts.end() && updates->is_number_integer() ? updates->get<int64_t>() : 0, facts);
}

void add_files(const fs::path& checkpoint, Facts& facts) {
  std::vector<fs::path> files;
  std::error_code unknown;
  for (const auto& entry : fs::directory_iterator(checkpoint, unknown)) {
    if (!nn::is_own_file(entry.path().filename().string()) && entry.is_regular_file(unknown))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const uintmax_t size = fs::file_size(file, unknown);
    if (!unknown) facts[cat("file ", file.filename().string(), " bytes")] = size;
  }
}

Facts facts_of(const std::string& model) {
  const nn::CheckpointHead checkpoint = nn::read_head(model, "MODEL");
  Facts facts;
  facts["task"] = checkpoint.identity.task;
  facts["checkpoint"] = checkpoint.folder.string();
  add_weights(checkpoint.folder, facts);
  add_training(checkpoint.folder, facts);
  add_configuration(checkpoint.identity, (checkpoint.folder / nn::kConfigFile).string(), facts);
  add_files(checkpoint.folder, facts);
  return facts;
}

std::string text_of(const Facts& value) {
  if (value.is_string()) return one_line(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::vector<std::string> items;
  for (const Facts& item : value) items.push_back(text_of(item));
  return join(items, ", ");
}

// Options that count only for a model with one of these mechanisms.
struct MechanismOptions {
  std::string_view prefix;
  std::array<std::string_view, 2> mechanisms;
};
constexpr std::array kMechanismOptions = {MechanismOptions{"routing-", {"routed(", "routed("}},
                                          MechanismOptions{"span-", {"span(", "span("}},
                                          MechanismOptions{"clause-", {"clause(", "mix("}}};

constexpr std::array<std::string_view, 5> kMechanisms = {"attention", "attention-encoder", "attention-decoder",
                                                         "attention-cross", "attention-layers"};
bool is_mechanism(std::string_view name) { return std::ranges::find(kMechanisms, name) != kMechanisms.end(); }

// Whether the option's mechanism is in the model; true for options of no mechanism.
bool counts_for(const std::string& name, const Facts& facts) {
  for (const MechanismOptions& options : kMechanismOptions) {
    if (!name.starts_with(options.prefix)) continue;
    for (const auto& [field, value] : facts.items()) {
      if (!is_mechanism(field)) continue;
      const std::string text = text_of(value);
      if (std::ranges::any_of(options.mechanisms, [&](auto mechanism) { return text.find(mechanism) != text.npos; }))
        return true;
    }
    return false;
  }
  return true;
}

std::string fact_text(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string() : text_of(*found);
}

int64_t fact_number(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found != facts.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

// "topk(4); cross full"; a model without a mechanism has full attention.
std::string mechanism_line(const Facts& facts) {
  const std::string usual = fact_text(facts, "attention");
  std::vector<std::string> parts = {usual.empty() ? "full" : usual};
  for (const auto& [name, value] : facts.items()) {
    if (is_mechanism(name) && name != "attention")
      parts.push_back(cat(name.substr(std::string_view("attention-").size()), " ", text_of(value)));
  }
  return join(parts, "; ");
}

std::string size_line(const Facts& facts) {
  std::vector<std::string> layers;
  for (const char* const depth : {"enc-depth", "dec-depth"})
    if (facts.contains(depth)) layers.push_back(fact_text(facts, depth));
  std::string line = cat(thousands(fact_number(facts, "parameters")), " parameters, ",
                         fixed(static_cast<double>(fact_number(facts, "weight bytes")) / 1e6, 1), " MB");
  if (!layers.empty())
    line += cat("; ", join(layers, " + "), layers == std::vector<std::string>{"1"} ? " layer" : " layers");
  if (facts.contains("transformer-heads")) line += cat(" of ", fact_text(facts, "transformer-heads"), " heads");
  if (facts.contains("dim-emb")) line += cat(", width ", fact_text(facts, "dim-emb"));
  return line;
}

// The languages of the training files, each once, as far as all their names say them.
std::string languages_line(const Facts& facts) {
  std::vector<std::string> codes;
  for (const std::string& code : text::languages_of_files(split_words(fact_text(facts, "train-sets"))))
    if (std::ranges::find(codes, code) == codes.end()) codes.push_back(code);
  return join(codes, ", ");
}

// "1,164 of 4,500; 900 in this checkpoint".
std::string updates_line(const Facts& facts) {
  const int64_t own = fact_number(facts, "updates"), limit = fact_number(facts, "after-batches");
  const int64_t made = facts.contains("run updates") ? fact_number(facts, "run updates") : own;
  if (!facts.contains("updates")) return "";
  return cat(thousands(made), limit > 0 ? cat(" of ", thousands(limit)) : "",
             made != own ? cat("; ", thousands(own), " in this checkpoint") : "");
}

// "ce-mean-words 2.1834 after 4,500 updates and 413 s", for each measure.
std::string best_line(const Facts& facts) {
  constexpr std::string_view kBest = "best ", kUpdates = " updates", kSeconds = " seconds";
  std::vector<std::string> parts;
  for (const auto& [name, value] : facts.items()) {
    if (!name.starts_with(kBest) || name.ends_with(kUpdates) || name.ends_with(kSeconds) || !value.is_number())
      continue;
    std::string part = cat(name.substr(kBest.size()), " ", fixed(value.get<double>(), 4));
    if (facts.contains(cat(name, kUpdates)))
      part += cat(" after ", thousands(fact_number(facts, cat(name, kUpdates))), kUpdates);
    const auto seconds = facts.find(cat(name, kSeconds));
    if (seconds != facts.end() && seconds->is_number())
      part += cat(", ", fixed(seconds->get<double>(), 0), " s of training");
    parts.push_back(std::move(part));
  }
  return join(parts, "; ");
}

// The command that continues the run of a checkpoint; empty if the folder of the run does not hold its options.
std::string continue_line(const Facts& facts) {
  const fs::path run = run_of(fact_text(facts, "checkpoint"));
  std::error_code unknown;
  if (run.empty() || !fs::is_regular_file(run / kRunConfigFile, unknown)) return "";
  return cat(program_name(), " train -c ", shell_word((run / kRunConfigFile).string()));
}

// The facts that a person asks first.
Facts summary_of(const Facts& facts) {
  std::string data = fact_text(facts, "train-sets");
  if (facts.contains("valid-sets")) data += cat("; validation ", fact_text(facts, "valid-sets"));
  Facts summary;
  for (const auto& [name, line] : {std::pair<const char*, std::string>{"task", fact_text(facts, "task")},
                                   {"languages", languages_line(facts)},
                                   {"mechanism", mechanism_line(facts)},
                                   {"size", size_line(facts)},
                                   {"data", data},
                                   {"updates", updates_line(facts)},
                                   {"best", best_line(facts)},
                                   {"checkpoint", fact_text(facts, "checkpoint")},
                                   {"continue", continue_line(facts)}}) {
    if (!line.empty()) summary[name] = line;
  }
  return summary;
}

}  // namespace

int run_info(const std::vector<std::string>& arguments) {
  InfoConfig config;
  std::vector<std::string> models;
  Options options("info", "Prints what a model is: task, size, mechanisms, data and its best values.",
                  "MODEL [--all | --json]");
  options.positional("MODEL", models, "folder of a run or of a checkpoint", 1);
  options.add(config, "Options");
  if (!options.parse(arguments)) return 0;
  if (models.empty()) throw UsageError("MODEL: got none; expected the folder of a run or of a checkpoint");
  const Facts facts = facts_of(models[0]);
  if (config.json) {
    std::cout << facts.dump(-1, ' ', false, Facts::error_handler_t::replace) << "\n";
    return 0;
  }
  const Facts shown = config.all ? facts : summary_of(facts);
  for (const auto& [name, value] : shown.items())
    if (counts_for(name, facts)) std::cout << one_line(name) << ": " << text_of(value) << "\n";
  return 0;
}

}  // namespace fovea::app
