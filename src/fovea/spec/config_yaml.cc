#include "fovea/spec/config_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_size.h"
#include "fovea/spec/foreign_names.h"

namespace fovea {
namespace {

void emit(YAML::Emitter& out, const FieldView& field, const std::string& value) {
  // Strings are quoted, so that "1" stays a string and 'true' a name.
  if (std::holds_alternative<std::string*>(field.value) ||
      std::holds_alternative<std::vector<std::string>*>(field.value))
    out << YAML::DoubleQuoted;
  out << value;
}

// YAML is UTF-8; yaml-cpp takes bytes as they come, and makes single ones of the escapes \N and \_.
std::string text_of(const YAML::Node& scalar) {
  if (!is_valid_utf8(scalar.Scalar()))
    throw Error("got a text that is not UTF-8; convert the file, and write characters in place of \\N and \\_");
  return scalar.Scalar();
}

std::vector<std::string> scalars(const YAML::Node& node, const FieldView& field) {
  if (node.IsNull())
    throw Error(cat("got null; expected ", field.is_list() ? "a list of values, or [] for none" : "one value",
                    "; to keep the default leave the line out"));
  if (node.IsScalar()) return {text_of(node)};
  std::vector<std::string> values;
  if (!node.IsSequence()) throw Error("expected a value or a list of values");
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) throw Error("expected a list of plain values");
    values.push_back(text_of(item));
  }
  return values;
}

// yaml-cpp takes no step over a ',' at the start of a document: LoadAll() would begin documents there until the memory
// is full.
class StrayCommas : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == last_) throw YAML::ParserException(mark, "what stands here belongs to nothing; take it out");
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  int last_ = -1;
};

void refuse_stray_commas(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  StrayCommas commas;
  while (parser.HandleNextDocument(commas)) continue;
}

// Other systems write _ for -.
std::string with_dashes(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

// Finds a field by its name or by another name that the command line knows.
const FieldView* find_field(std::span<const FieldView> fields, std::string_view key) {
  for (const FieldView& field : fields) {
    if (field.name == key) return &field;
    const std::vector<std::string> aliases = split(field.aliases, ',');
    if (!field.aliases.empty() && std::find(aliases.begin(), aliases.end(), key) != aliases.end()) return &field;
  }
  return nullptr;
}

}  // namespace

void require_config_size(uint64_t bytes, std::string_view source) {
  constexpr uint64_t kMost = uint64_t{1} << 20;
  if (bytes > kMost)
    throw Error(cat(source, ": has ", thousands(static_cast<int64_t>(bytes)),
                    " bytes; expected a configuration of at most ", thousands(static_cast<int64_t>(kMost)),
                    "; is it another file?"));
}

std::string to_yaml(std::span<const FieldView> fields) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const FieldView& field : fields) {
    out << YAML::Key << std::string(field.name) << YAML::Value;
    const std::vector<std::string> values = values_of(field);
    if (field.is_list()) {
      out << YAML::Flow << YAML::BeginSeq;
      for (const std::string& value : values) emit(out, field, value);
      out << YAML::EndSeq;
    } else {
      emit(out, field, values[0]);
    }
  }
  out << YAML::EndMap << YAML::Newline;
  return out.c_str();
}

namespace {

// All unknown keys at once: a file of another system has many of them.
void refuse_unknown_keys(const YAML::Node& root, std::string_view source, std::span<const FieldView> fields,
                         const ExplainKey& explain) {
  struct UnknownKey {
    std::string name, more;  // more: what to do
    int line = 0;
  };
  std::vector<std::string> known;
  for (const FieldView& field : fields) known.emplace_back(field.name);
  std::vector<UnknownKey> unknown;
  for (const auto& entry : root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?", name = with_dashes(key);
    if (find_field(fields, name) != nullptr) continue;
    const std::string more = explain ? explain(name) : "";
    unknown.push_back({key, more.empty() ? did_you_mean_field(name, known, "") : more, entry.first.Mark().line + 1});
  }
  if (unknown.empty()) return;
  if (unknown.size() == 1) {
    const UnknownKey& only = unknown.front();
    throw Error(cat(source, ":", only.line, ": unknown key '", only.name, "'", only.more));
  }
  std::vector<std::string> list;
  for (const UnknownKey& key : unknown) list.push_back(cat("'", key.name, "' (line ", key.line, key.more, ")"));
  throw Error(cat(source, ": ", unknown.size(), " unknown keys: ", join(list, ", ")));
}

}  // namespace

void from_yaml(std::string_view text, std::string_view source, std::span<const FieldView> fields,
               const ExplainKey& explain) {
  require_config_size(text.size(), source);
  YAML::Node root;
  try {
    refuse_stray_commas(std::string(text));
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1)
      throw Error(cat(source, ": has ", documents.size(), " YAML documents; one is expected, without '---' between"));
    if (!documents.empty()) root = documents[0];
  } catch (const YAML::Exception& e) {
    throw Error(cat(source, ": not YAML at line ", e.mark.line + 1, ", column ", e.mark.column + 1, ": ", e.msg));
  }
  if (root.IsNull()) return;
  if (!root.IsMap()) throw Error(cat(source, ": expected 'name: value' lines"));
  refuse_unknown_keys(root, source, fields, explain);
  std::set<std::string_view> seen;
  for (const auto& entry : root) {
    const std::string key = entry.first.Scalar();
    const std::string place = cat(source, ":", entry.first.Mark().line + 1, ": ");
    const FieldView* found = find_field(fields, with_dashes(key));
    if (!seen.insert(found->name).second) throw Error(cat(place, "'", found->name, "' comes twice; keep one"));
    try {
      set_value(*found, scalars(entry.second, *found));
    } catch (const Error& e) {
      throw Error(cat(place, key, ": ", e.what()));
    }
  }
}

std::map<std::string, std::vector<std::string>> values_of_yaml(std::string_view text) {
  require_config_size(text.size(), "the YAML");
  std::map<std::string, std::vector<std::string>> values;
  try {
    refuse_stray_commas(std::string(text));
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) return values;
    for (const auto& entry : root) {
      const YAML::Node& value = entry.second;
      const auto is_plain = [](const YAML::Node& item) { return item.IsScalar(); };
      const bool is_list = value.IsSequence() && std::all_of(value.begin(), value.end(), is_plain);
      if (!entry.first.IsScalar() || (!value.IsScalar() && !is_list)) continue;
      std::vector<std::string>& found = values[with_dashes(entry.first.Scalar())];
      found.clear();
      if (value.IsScalar()) found.push_back(value.Scalar());
      for (const YAML::Node& item : value) found.push_back(item.Scalar());
    }
  } catch (const YAML::Exception& e) {
    throw Error(cat("not YAML at line ", e.mark.line + 1, ": ", e.msg));
  }
  return values;
}

void require_every_field(std::string_view text, std::string_view source, std::span<const FieldView> fields) {
  const std::map<std::string, std::vector<std::string>> values = values_of_yaml(text);
  for (const FieldView& field : fields) {
    if (!values.contains(std::string(field.name)))
      throw Error(cat(source, ": the key '", field.name, "' is missing; expected every option of the model"));
  }
}

std::map<std::string, std::string> scalars_of_yaml(std::string_view text) {
  std::map<std::string, std::string> scalars;
  for (const auto& [name, values] : values_of_yaml(text)) {
    if (values.size() == 1) scalars[name] = values.front();
  }
  return scalars;
}

}  // namespace fovea
