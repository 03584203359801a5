#include "fovea/app/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include "fovea/app/option_help.h"
#include "fovea/app/torch.h"
#include "fovea/app/version.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/program_name.h"
#include "fovea/base/shell_word.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/spec/config_size.h"
#include "fovea/spec/config_version.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/foreign_names.h"

namespace fovea::app {
namespace {

// "--max_tokens" as other systems write it.
std::string with_dashes(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

std::string see_help(const std::string& command) { return cat("; see ", program_name(), " ", command, " --help"); }

bool has_name_of(const FieldView& field, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, field.name) != names.end();
}

// The field that has this flag, by its name or an alias; null if there is none.
const FieldView* find_by_flag(const std::vector<FieldView>& fields, const std::string& flag) {
  for (const FieldView& field : fields) {
    const std::vector<std::string> flags = flags_of(field);
    if (std::ranges::find(flags, flag) != flags.end()) return &field;
  }
  return nullptr;
}

// The text of a file of --config. peek() and parse() both ask for it, but a pipe such as <(...) can be read only once.
std::string config_text(const std::string& path) {
  static std::map<std::string, std::string> pipes;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) {
    require_config_size(std::filesystem::file_size(path), path);
    return read_text_file(path);
  }
  require_torch();
  const auto found = pipes.find(path);
  return found != pipes.end() ? found->second : pipes.emplace(path, read_text_file(path)).first->second;
}

}  // namespace

struct Options::State {
  std::string command, summary, usage;
  CLI::App app;
  std::vector<FieldView> fields;
  std::vector<HelpGroup> groups;          // in the order of the help text
  std::vector<std::string> usual;         // names of the fields that --help shows; empty: all
  std::vector<std::string> not_streams;   // flags of paths for which '-' is none of the standard streams
  std::vector<std::string> config_files;  // as given
  std::map<std::string, std::string, std::less<>> config_of_field;
  std::set<std::string, std::less<>> named_in_files;  // fields
  std::function<void(const std::string& path)> after_config;
  std::vector<std::pair<std::string, std::vector<FieldView>>> others;
  std::string notes, examples;
  bool dump = false;

  State(const std::string& name, const std::string& text, const std::string& line)
      : command(name), summary(text), usage(line), app(text, "fovea " + name) {
    app.set_help_flag("-h,--help");
    app.set_help_all_flag("--help-all");
    // Added first, so read before any flag is taken: flags win over files.
    app.add_option_function<std::vector<std::string>>("-c,--config",
                                                      [this](const std::vector<std::string>& paths) { load(paths); })
        ->allow_extra_args(false);
    app.add_flag("--dump-config", dump);
    groups.push_back({"Options",
                      {{"-h,--help", "show this text"},
                       {"--help-all", "show all options, those of other tasks too"},
                       {"-c,--config FILE", "take options from a YAML file of 'name: value' lines; may be repeated"},
                       {"--dump-config", "print all options as YAML and stop"}}});
  }

  HelpGroup& group_of(const std::string& heading) {
    for (HelpGroup& group : groups) {
      if (group.heading == heading) return group;
    }
    return groups.emplace_back(HelpGroup{heading, {}});
  }

  void load(const std::vector<std::string>& paths) {
    config_files = paths;
    for (const std::string& path : paths) {
      require_file(path, "--config");
      std::vector<std::vector<std::string>> before;
      before.reserve(fields.size());
      for (const FieldView& field : fields) before.push_back(values_of(field));
      from_versioned_yaml(config_text(path), path, kVersion, fields, [this](const std::string& key) {
        const std::string choice = other_choice_of(cat("--", key));
        return choice.empty() ? "" : cat("; it is an option of ", choice);
      });
      for (size_t i = 0; i < fields.size(); ++i) {
        if (values_of(fields[i]) != before[i]) config_of_field[std::string(fields[i].name)] = path;
      }
      for (const auto& [key, values] : values_of_yaml(config_text(path))) {
        if (const FieldView* field = find_by_flag(fields, cat(key.size() == 1 ? "-" : "--", key)))
          named_in_files.insert(std::string(field->name));
      }
      if (after_config) after_config(path);
    }
  }

  // The other choice that has an option of this flag; empty if none has.
  std::string other_choice_of(const std::string& flag) const {
    for (const auto& [choice, other] : others) {
      if (find_by_flag(other, flag) != nullptr) return choice;
    }
    return "";
  }

  // The end of a refusal of arguments without a flag: the one that they need, if they are files and the command reads
  // such. "" if not.
  std::string flag_for(const std::vector<std::string>& arguments) const {
    std::error_code none_there;
    const auto is_file = [&](const std::string& name) { return std::filesystem::exists(name, none_there); };
    if (!std::ranges::all_of(arguments, is_file)) return "";
    std::vector<std::string> words;
    for (const std::string& argument : arguments) words.push_back(shell_word(argument));
    for (const std::string_view name : {"input", "train-sets"}) {
      if (std::ranges::find(fields, name, &FieldView::name) != fields.end())
        return cat("; to read it, --", name, " ", join(words, " "));
    }
    return "";
  }

  // Throws for what CLI11 could not place; '--' only ends the options.
  void check_extras() const {
    std::vector<std::string> extra = app.remaining();
    std::erase(extra, "--");
    if (extra.empty()) return;
    const std::string name = extra.front().substr(0, extra.front().find('=')), see = see_help(command);
    if (!name.starts_with("-")) throw UsageError(cat("unexpected argument '", name, "'", flag_for(extra), see));
    if (const std::string choice = other_choice_of(name); !choice.empty())
      throw UsageError(cat("'", name, "' is an option of ", choice, see));
    const std::string hint = did_you_mean_field(name, known_flags(), "--");
    throw UsageError(cat("unknown option '", name, "'", hint.empty() ? see : hint));
  }

  [[noreturn]] void refuse_count(const std::string& flag) const {
    const CLI::Option* option = app.get_option_no_throw(flag);
    const size_t got = option == nullptr ? 0 : option->results().size();
    const FieldView* field = find_by_flag(fields, flag);  // CLI11 names an option by its first alias
    const std::string name = field == nullptr ? flag : cat("--", field->name), see = see_help(command);
    if (got == 0) throw UsageError(cat(name, ": got no value; expected one after it", see));
    const std::string expected = field != nullptr && field->most > 1 ? cat("at most ", field->most) : "one";
    throw UsageError(cat(name, ": got ", got, " values; expected ", expected, see));
  }

  void check_paths() const {
    for (const FieldView& field : fields) {
      for (const std::string& value : values_of(field)) check_path(field, value);
    }
  }

  void check_path(const FieldView& field, const std::string& value) const {
    const std::string flag = cat("--", field.name);
    if (value == "-" && std::ranges::find(not_streams, flag) != not_streams.end())
      throw UsageError(cat(flag,
                           ": got '-', but this option cannot use standard input or output; expected a path (./- for "
                           "a file named '-')"));
    if (!has_name_of(field, {"log", "output"})) return;
    require_other_file(flag, value, config_files);
    if (value != "-" && nn::is_checkpoint_file(value))
      throw Error(cat(flag, ": '", value, "' is a checkpoint's and would be changed; name another file"));
  }

  void print_yaml() const {
    for (const FieldView& field : fields) {
      for (const std::string& value : values_of(field)) {
        if (!is_valid_utf8(value))
          throw Error(cat("--dump-config: the value of --", field.name, ", '", value, "', is not UTF-8, as YAML is"));
      }
    }
    std::cout << to_yaml(std::span<const FieldView>(fields)) << std::flush;
  }

  // A group for each of the other choices, of its options that differ from this choice's.
  std::vector<HelpGroup> groups_of_others() const {
    std::vector<HelpGroup> differing;
    for (const auto& [choice, other] : others) {
      HelpGroup& group = differing.emplace_back(HelpGroup{cat("With ", choice, ", where it differs"), {}});
      for (const FieldView& field : other) {
        const bool is_known = std::ranges::any_of(fields, [&](const FieldView& own) {
          return own.name == field.name && help_line(own).words == help_line(field).words;
        });
        if (!is_known) group.lines.push_back(help_line(field));
      }
      if (group.lines.empty()) differing.pop_back();
    }
    return differing;
  }

  // The groups without the options that are not usual.
  std::vector<HelpGroup> usual_groups() const {
    std::vector<HelpGroup> shown = groups;
    const auto is_unusual = [&](const HelpLine& line) {
      const auto field =
          std::ranges::find_if(fields, [&](const FieldView& own) { return help_line(own).name == line.name; });
      return field != fields.end() && std::ranges::find(usual, field->name) == usual.end();
    };
    for (HelpGroup& group : shown) {
      if (!usual.empty()) std::erase_if(group.lines, is_unusual);
    }
    std::erase_if(shown, [](const HelpGroup& group) { return group.lines.empty(); });
    return shown;
  }

  // The names of the options that are not usual, with the values that they may have, those of other choices too.
  std::vector<std::string> unusual_names() const {
    std::vector<std::string> names;
    std::set<std::string, std::less<>> seen(usual.begin(), usual.end());
    const auto add = [&](const FieldView& field) {
      if (!seen.insert(std::string(field.name)).second) return;
      const std::string words = help_line(field).words;
      const size_t begin = words.find('{'), end = words.find('}');
      const bool has_values = begin < end && end != std::string::npos;
      names.push_back(cat("--", field.name, has_values ? cat(" ", words.substr(begin, end + 1 - begin)) : ""));
    };
    for (const FieldView& field : fields) add(field);
    for (const auto& [choice, other] : others)
      for (const FieldView& field : other) add(field);
    return names;
  }

  // Says what --help leaves out; empty if it shows everything.
  std::string rest_of_help() const {
    std::vector<std::string> choices;
    for (const auto& [choice, other] : others) choices.push_back(choice);
    if (choices.empty() && usual.empty()) return "";
    const std::string names = usual.empty() ? "" : cat("More options: ", join(unusual_names(), ", "), ".\n\n");
    return cat(names, "fovea ", command, " --help-all shows",
               usual.empty() ? "" : cat(" all ", fields.size(), " options"),
               usual.empty() || choices.empty() ? "" : ", and",
               choices.empty() ? "" : cat(" the options of ", join(choices, ", ")), ".\n\n");
  }

  std::string help(bool is_all) const {
    const int64_t width = help_width();
    std::string text =
        cat(wrapped(summary, width, 0), "\n", wrapped(cat("Usage: fovea ", command, " ", usage), width, 7), "\n\n");
    for (const HelpGroup& group : is_all ? groups : usual_groups()) text += print(group, width) + "\n";
    if (is_all) {
      for (const HelpGroup& group : groups_of_others()) text += print(group, width) + "\n";
    } else {
      text += wrapped_lines(rest_of_help(), width);
    }
    text += wrapped_lines(notes, width);
    return examples.empty() ? text : cat(text, notes.empty() ? "" : "\n", examples, "\n");
  }

  std::vector<std::string> known_flags() const {
    std::vector<std::string> known = {"--config", "--help", "--help-all", "--dump-config"};
    for (const FieldView& field : fields) {
      for (const std::string& flag : flags_of(field)) known.push_back(flag);
    }
    return known;
  }
};

Options::Options(const std::string& command, const std::string& summary, const std::string& usage)
    : state_(std::make_unique<State>(command, summary, usage)) {}
Options::~Options() = default;

void Options::add_fields(const std::vector<FieldView>& fields, const std::string& heading) {
  for (const FieldView& field : fields) {
    const auto same = [&](const FieldView& other) { return other.name == field.name; };
    if (std::any_of(state_->fields.begin(), state_->fields.end(), same)) continue;
    state_->fields.push_back(field);
    state_->group_of(heading).lines.push_back(help_line(field));
    const std::vector<std::string> defaults = values_of(field);
    if (has_name_of(field, {"log", "model", "output"}) && !(defaults.size() == 1 && defaults.front() == "-"))
      state_->not_streams.push_back(cat("--", field.name));
    const CLI::callback_t take = [state = state_.get(), field](const CLI::results_t& values) {
      const std::vector<std::string> known = state->known_flags();
      // All that were given, not the last alone: CLI11 gives an option that wants a value whatever comes next.
      for (const std::string& value : state->app.get_option(cat("--", field.name))->results()) {
        if (std::ranges::find(known, value.substr(0, value.find('='))) != known.end()) {
          throw UsageError(cat("--", field.name, ": got no value, but ", value, " next", see_help(state->command)));
        }
      }
      assign(field, values);
      return true;
    };
    const std::string flags = join(flags_of(field), ",");
    if (field.is_flag()) {
      CLI::Option* option = state_->app.add_flag(flags, *std::get<bool*>(field.value));
      // This check runs before CLI11 takes 1.5 for true: assign() refuses the value, or sets the flag as CLI11 will.
      option->check([field](const std::string& value) { return assign(field, {value}), std::string(); });
    } else {
      CLI::Option* option = state_->app.add_option(flags, take);
      option->type_name(type_of(field))->type_size(1);
      if (field.is_list()) {
        option->expected(1, field.most > 0 ? static_cast<int>(field.most) : 1 << 20);
      } else {
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
    }
  }
}

void Options::positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                         std::optional<int> most) {
  CLI::Option* option = state_->app.add_option(name, values);
  if (most) option->expected(0, *most);
  HelpGroup arguments = {"Arguments", {{cat(name, most ? "" : " ..."), help}}};
  state_->groups.insert(state_->groups.begin(), std::move(arguments));
}

void Options::usual(const std::vector<std::string>& names) { state_->usual = names; }

void Options::notes(const std::string& text) { state_->notes = text; }

void Options::epilogue(const std::string& text) { state_->examples = text; }

void Options::after_config(std::function<void(const std::string& path)> call) {
  state_->after_config = std::move(call);
}

std::optional<std::string> Options::config_of(std::string_view name) const {
  const CLI::Option* option = state_->app.get_option_no_throw(cat("--", name));
  const auto found = state_->config_of_field.find(name);
  if (found == state_->config_of_field.end() || (option != nullptr && option->count() > 0)) return std::nullopt;
  return found->second;
}

bool Options::is_given(std::string_view name) const {
  const CLI::Option* option = state_->app.get_option_no_throw(cat("--", name));
  return (option != nullptr && option->count() > 0) || state_->named_in_files.contains(name);
}

void Options::add_other(const std::string& choice, const std::vector<FieldView>& fields) {
  state_->others.emplace_back(choice, fields);
}

bool Options::parse(const std::vector<std::string>& given) {
  std::vector<std::string> arguments;
  arguments.reserve(given.size());
  for (const std::string& argument : given) arguments.push_back(with_dashes(argument));
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    state_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << state_->help(false) << std::flush;
    return false;
  } catch (const CLI::CallForAllHelp&) {
    std::cout << state_->help(true) << std::flush;
    return false;
  } catch (const CLI::ExtrasError&) {
    state_->check_extras();
  } catch (const CLI::ArgumentMismatch& e) {
    state_->refuse_count(std::string(e.what()).substr(0, std::string_view(e.what()).find(':')));
  } catch (const CLI::ParseError& e) {
    throw UsageError(cat(e.what(), see_help(state_->command)));
  }
  if (state_->dump) {
    state_->print_yaml();
    return false;
  }
  state_->check_paths();
  return true;
}

namespace {

// The values of an option on the command line, "--name VALUE", "--name=VALUE" or "-n VALUE". "-nVALUE" counts if there
// is not any other, because another option's value may look like it.
std::vector<std::string> values_on_line(const std::vector<std::string>& arguments, const std::string& name,
                                        char letter) {
  const std::string flag = cat("--", name), short_flag = letter == 0 ? flag : cat("-", std::string(1, letter));
  std::vector<std::string> values, attached;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = with_dashes(arguments[i]);
    if (letter != 0 && argument.starts_with(short_flag) && argument != short_flag)
      attached.push_back(argument.substr(short_flag.size()));
    if (argument.starts_with(cat(flag, "="))) values.push_back(argument.substr(flag.size() + 1));
    if ((argument == flag || argument == short_flag) && i + 1 < arguments.size()) values.push_back(arguments[i + 1]);
  }
  return values.empty() ? attached : values;
}

// The scalars of a file of --config, which peek() asks for again and again.
const std::map<std::string, std::string>& config_scalars(const std::string& path) {
  static std::map<std::string, std::map<std::string, std::string>> by_text;
  const std::string text = config_text(path);
  const auto found = by_text.find(text);
  return found != by_text.end() ? found->second : by_text.emplace(text, scalars_of_yaml(text)).first->second;
}

}  // namespace

std::optional<std::string> peek(const std::vector<std::string>& arguments, const std::string& name, char letter) {
  const std::vector<std::string> given = values_on_line(arguments, name, letter);
  if (!given.empty()) return given.back();
  std::optional<std::string> found;
  for (const std::string& path : values_on_line(arguments, "config", 'c')) {
    try {
      const std::map<std::string, std::string>& values = config_scalars(path);
      for (const std::string& key : {name, std::string(letter == 0 ? 0 : 1, letter)}) {
        if (const auto value = values.find(key); value != values.end()) found = value->second;
      }
    } catch (const Error&) {
      continue;
    }
  }
  return found;
}

}  // namespace fovea::app
