#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/fields.h"

namespace fovea::app {

// The command line of one subcommand, made of the fields of its configuration structs. Also gives every subcommand
// -c/--config FILE (YAML, may be repeated, later ones win, flags win over all), --dump-config, --help and --help-all.
// An option with one value that is given several times has its last value; the values of a list are put together.
class Options {
 public:
  Options(const std::string& command, const std::string& summary, const std::string& usage);
  ~Options();

  // Adds every field of `config` under a heading of the help text.
  template <class S>
  void add(S& config, const std::string& heading) {
    add_fields(field_views(config), heading);
  }
  void add(const std::vector<FieldView>& fields, const std::string& heading) { add_fields(fields, heading); }
  // Options that this command line does not take, because they belong to another choice such as "--task language".
  // --help-all lists the fields that differ here, under that heading, and the error for one of them names it.
  void add_other(const std::string& choice, const std::vector<FieldView>& fields);
  // Arguments without a flag: any number of them, or at most `most`.
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  std::optional<int> most = std::nullopt);
  // Names of the fields that --help shows on a terminal, instead of all; --help-all shows the others too. Names that
  // are not known count for nothing: they are of another choice.
  void usual(const std::vector<std::string>& names);
  // Lines that are shown after the options.
  void notes(const std::string& text);
  // Shown last: examples, whose lines are never broken.
  void epilogue(const std::string& text);
  // Called after each file of --config was read into the fields, with its path as given.
  void after_config(std::function<void(const std::string& path)> call);

  // False when help or the configuration was printed and there is nothing to do. Throws UsageError, and Error where
  // --output or --log would change a file of --config or of a checkpoint.
  bool parse(const std::vector<std::string>& arguments);

  // The file of --config that the field `name` has its value from; nothing if the command line gave it, or no file.
  std::optional<std::string> config_of(std::string_view name) const;
  // Whether the command line or a file of --config names the field.
  bool is_given(std::string_view name) const;

 private:
  void add_fields(const std::vector<FieldView>& fields, const std::string& heading);
  struct State;
  std::unique_ptr<State> state_;
};

// The value that `arguments` give the option `name` ("task"; `letter` is its short flag or 0), on the command line or
// else in the last --config file that has it; nothing if neither does. Reports no errors: parse() will.
std::optional<std::string> peek(const std::vector<std::string>& arguments, const std::string& name, char letter = 0);

}  // namespace fovea::app
