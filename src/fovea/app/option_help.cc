#include "fovea/app/option_help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::app {
namespace {

constexpr int64_t kTextColumn = 34;       // where the texts of options begin
constexpr int64_t kNarrowTextColumn = 6;  // the same where a terminal has no room beside the names
constexpr int64_t kLeastText = 30;        // columns for texts

std::string blanks(int64_t count) { return std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' '); }

}  // namespace

int64_t help_width() {
  constexpr int64_t kLeast = 20;
  const char* const given = std::getenv("COLUMNS");
  const std::optional<int64_t> columns = given == nullptr ? std::nullopt : number_in<int64_t>(given);
  if (columns && *columns >= kLeast) return *columns;
  winsize size = {};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return is_terminal && size.ws_col >= kLeast ? size.ws_col : 0;
}

std::string wrapped(std::string_view line, int64_t width, int64_t indent) {
  if (width == 0) return std::string(line);
  std::string out;
  int64_t room = width;
  while (static_cast<int64_t>(line.size()) > room) {
    const size_t first_word = line.find_first_not_of(' ');
    size_t end = line.rfind(' ', static_cast<size_t>(room));
    if (end == std::string_view::npos || end <= first_word) end = line.find(' ', first_word);  // a word that is longer
    if (end == std::string_view::npos) break;
    out += cat(line.substr(0, end), "\n", blanks(indent));
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    room = std::max<int64_t>(width - indent, 1);
  }
  return out += line;
}

std::string wrapped_lines(std::string_view text, int64_t width) {
  constexpr int64_t kFurther = 4;
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    out += cat(wrapped(line, width, static_cast<int64_t>(begin) + kFurther), "\n");
  }
  if (!out.empty()) out.pop_back();  // the text's last newline ends its last line, and begins none
  return out;
}

std::vector<std::string> flags_of(const FieldView& field) {
  std::vector<std::string> flags;
  if (!field.aliases.empty()) {
    for (const std::string& alias : split(field.aliases, ','))
      flags.push_back((alias.size() == 1 ? "-" : "--") + alias);
  }
  flags.push_back(cat("--", field.name));
  std::ranges::stable_partition(flags, [](const std::string& flag) { return !flag.starts_with("--"); });
  return flags;
}

std::string type_of(const FieldView& field) {
  static constexpr const char* kNames[] = {"", "N", "X", "TEXT", "N ...", "X ...", "TEXT ..."};
  return kNames[field.value.index()];
}

HelpLine help_line(const FieldView& field) {
  std::string words(field.help);
  if (!field.choices.empty()) words += cat(" {", field.choices, "}");
  const std::string value = join(values_of(field), " "), type = type_of(field);
  if (!field.is_flag() && !value.empty()) words += cat(" [", value, "]");
  return {cat(join(flags_of(field), ","), type.empty() ? "" : " ", type), words};
}

std::string print_lines(const std::vector<HelpLine>& lines, int64_t indent, int64_t width) {
  std::string out;
  for (const HelpLine& line : lines) {
    std::string text = cat("  ", line.name);
    if (static_cast<int64_t>(text.size()) >= indent) out += text + "\n", text.clear();
    text += blanks(indent - static_cast<int64_t>(text.size())) + line.words;
    out += wrapped(text, width, indent) + "\n";
  }
  return out;
}

std::string print(const HelpGroup& group, int64_t width) {
  const bool is_narrow = width > 0 && width < kTextColumn + kLeastText;
  return cat(group.heading, ":\n", print_lines(group.lines, is_narrow ? kNarrowTextColumn : kTextColumn, width));
}

}  // namespace fovea::app
