#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/fields.h"

// The help texts of commands, laid out for a terminal.
namespace fovea::app {

// The width to fit help into: the variable COLUMNS, or the width of the terminal that standard output is; 0, which
// means any width, if there is neither, so that scripts find whole lines.
int64_t help_width();

// Breaks a line between words at `width`, if it is longer. Later lines begin with `indent` blanks.
std::string wrapped(std::string_view line, int64_t width, int64_t indent);
// Wraps each line of a text that ends in a newline; later lines are indented by four blanks more than the first.
std::string wrapped_lines(std::string_view text, int64_t width);

// An option or an argument: "-m,--model TEXT", and what it is.
struct HelpLine {
  std::string name, words;
};
HelpLine help_line(const FieldView& field);

struct HelpGroup {
  std::string heading;
  std::vector<HelpLine> lines;
};
// A heading, and a line for each option.
std::string print(const HelpGroup& group, int64_t width);
// A group without its heading, whose texts begin at the column `indent`.
std::string print_lines(const std::vector<HelpLine>& lines, int64_t indent, int64_t width);

// The flags of a field, short ones first: {"-m", "--model"}.
std::vector<std::string> flags_of(const FieldView& field);
std::string type_of(const FieldView& field);

}  // namespace fovea::app
