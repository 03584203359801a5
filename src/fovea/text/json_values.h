#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Values of a stranger's JSON file. Each function throws an Error that begins with `origin`, names the field and says
// what was got and what was expected. Objects are trees, which find a key among a vocabulary's at once.
namespace fovea::text {

using Json = nlohmann::json;

Json parse_json_object(const std::string& text, const std::string& origin);
// A value for messages, in one line and not longer than one.
std::string shown_json(const Json& value);

// A field that may be missing or null, and is nullptr then.
const Json* find_json(const Json& object, const std::string& name);
// A field that must be an object.
const Json& json_object(const Json& object, const std::string& name, const std::string& origin);
// A whole number from `least` to `most`.
struct JsonRange {
  int64_t least = 0, most = 0;
};
int64_t whole_json(const Json& value, const JsonRange& range, const std::string& place);
int64_t json_number(const Json& object, const std::string& name, const JsonRange& range, const std::string& origin);
// Fields that may be missing or null.
double json_rate(const Json& object, const std::string& name, double usual, double most, const std::string& origin);
std::optional<std::string> json_text(const Json& object, const std::string& name, const std::string& origin);
std::optional<bool> json_truth(const Json& object, const std::string& name, const std::string& origin);
void require_json_word(const std::string& value, const std::string& name, const std::vector<std::string>& known,
                       const std::string& origin);

}  // namespace fovea::text
