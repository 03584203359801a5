#include "fovea/metrics/label_form.h"

#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

constexpr std::string_view kTypeExample = "TYPE";

char capital(char letter) { return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter; }

// The canonical letter: letters that mean the same are one.
char meaning_of(char letter) {
  switch (letter) {
    case 'L':
      return 'E';
    case 'M':
      return 'I';
    case 'U':
    case 'W':
      return 'S';
    default:
      return letter;
  }
}

}  // namespace

bool separates_label_parts(char c) { return std::string_view("-_/:.|+=#~@^").find(c) != std::string_view::npos; }

LabelParts parts_of_label(std::string_view label, const LabelForm& form) {
  if (label == form.outside()) return {};
  const LabelParts word = {'W', label, 'W'};
  const size_t size = label.size();
  const size_t least = form.has_empty_types && !form.is_type_first ? 2 : 3;
  if (!form.marks_chunks() || (form.has_types ? size < least : size != 1)) return word;
  const bool at_end = form.has_types && form.is_type_first;
  const char letter = at_end ? label[size - 1] : label[0];
  const bool is_lower = letter >= 'a' && letter <= 'z';
  if (is_lower != form.is_lower || form.letters.find(capital(letter)) == std::string_view::npos) return word;
  if (!form.has_types) return {meaning_of(capital(letter)), "", capital(letter)};
  if (label[at_end ? size - 2 : 1] != form.separator) return word;
  return {meaning_of(capital(letter)), at_end ? label.substr(0, size - 2) : label.substr(2), capital(letter)};
}

std::string label_in_form(char letter, std::string_view type, const LabelForm& form) {
  const char own = form.is_lower ? static_cast<char>(letter - 'A' + 'a') : letter;
  if (!form.has_types) return {own};
  return form.is_type_first ? cat(type, form.separator, own) : cat(own, form.separator, type);
}

std::string print_label_form(const LabelForm& form) {
  const std::string example = label_in_form('B', kTypeExample, form);
  return form.is_outside_lower == form.is_lower ? example : cat(example, " ", form.outside());
}

LabelForm parse_label_form(std::string_view text, std::string_view what) {
  const std::vector<std::string> examples = fovea::split_words(text);
  LabelForm form;
  const auto fits = [&](const std::string& example) {
    for (const char separator : example) {
      for (const bool is_type_first : {false, true}) {
        form = {.is_type_first = is_type_first, .separator = separator};
        for (const bool is_lower : {false, true}) {
          form.is_lower = form.is_outside_lower = is_lower;
          if (separates_label_parts(separator) && label_in_form('B', kTypeExample, form) == example) return true;
        }
      }
    }
    form = {.has_types = false, .is_lower = example == "b", .is_outside_lower = example == "b"};
    return example == "B" || example == "b";
  };
  const bool has_outside = examples.size() == 2 && (examples[1] == "O" || examples[1] == "o");
  if (examples.empty() || (examples.size() > 1 && !has_outside) || !fits(examples[0]))
    throw UsageError(cat(what, ": got '", text,
                         "'; expected the first label of a chunk of the type TYPE, such as B-TYPE, B_TYPE, TYPE-B or "
                         "b-TYPE, or B for labels without types"));
  if (has_outside) form.is_outside_lower = examples[1] == "o";
  return form;
}

}  // namespace fovea::metrics
