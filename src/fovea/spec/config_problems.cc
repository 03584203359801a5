#include "fovea/spec/config_problems.h"

#include <algorithm>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"

namespace fovea {

void Problems::add_range(const FieldView& field) {
  try {
    assign(field, values_of(field));
  } catch (const Error& error) {
    add(error.what());
  }
}

void Problems::throw_if_any() const {
  if (sentences_.empty()) return;
  if (sentences_.size() == 1) throw UsageError(sentences_.front());
  std::vector<std::string> lines;
  for (const std::string& sentence : sentences_) lines.push_back(sentence.substr(0, sentence.find('\n')));
  throw UsageError(join(lines, "; "));
}

void add_attention_problems(const AttentionOverride& mechanisms, Problems& problems) {
  AttentionOverride copy = mechanisms;
  for (const FieldView& field : field_views(copy)) {
    const std::string text = join(values_of(field), "");
    if (!text.empty()) problems.add_thrown_by(field.name, [&] { parse_layer_spec(text); });
  }
}

bool is_device(std::string_view text) {
  if (text == "cpu") return true;
  return !text.empty() && text.size() < 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace fovea
