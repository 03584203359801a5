#include "fovea/text/json_values.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::text {

Json parse_json_object(const std::string& text, const std::string& origin) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw Error(cat(origin, ": is not a JSON object"));
  return json;
}

// Writing nested values would need as much stack as a stranger's file asks for.
std::string shown_json(const Json& value) {
  if (value.is_structured()) return cat("an ", value.type_name());
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

const Json* find_json(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& json_object(const Json& object, const std::string& name, const std::string& origin) {
  const Json* const found = find_json(object, name);
  if (found == nullptr) throw Error(cat(origin, ": ", name, " is missing"));
  if (!found->is_object()) throw Error(cat(origin, ": ", name, ": got ", shown_json(*found), "; expected an object"));
  return *found;
}

int64_t whole_json(const Json& value, const JsonRange& range, const std::string& place) {
  const bool fits = value.is_number_integer() && value >= range.least && value <= range.most;
  if (!fits)
    throw Error(
        cat(place, ": got ", shown_json(value), "; expected a whole number from ", range.least, " to ", range.most));
  return value.get<int64_t>();
}

int64_t json_number(const Json& object, const std::string& name, const JsonRange& range, const std::string& origin) {
  const auto found = object.find(name);
  if (found == object.end()) throw Error(cat(origin, ": ", name, " is missing"));
  return whole_json(*found, range, cat(origin, ": ", name));
}

double json_rate(const Json& object, const std::string& name, double usual, double most, const std::string& origin) {
  const Json* const found = find_json(object, name);
  if (found == nullptr) return usual;
  if (!found->is_number() || !(found->get<double>() >= 0) || found->get<double>() > most)
    throw Error(
        cat(origin, ": ", name, ": got ", shown_json(*found), "; expected a number from 0 to ", shortest(most)));
  return found->get<double>();
}

std::optional<std::string> json_text(const Json& object, const std::string& name, const std::string& origin) {
  const Json* const found = find_json(object, name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) throw Error(cat(origin, ": ", name, ": got ", shown_json(*found), "; expected a text"));
  return found->get<std::string>();
}

std::optional<bool> json_truth(const Json& object, const std::string& name, const std::string& origin) {
  const Json* const found = find_json(object, name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean())
    throw Error(cat(origin, ": ", name, ": got ", shown_json(*found), "; expected true or false"));
  return found->get<bool>();
}

void require_json_word(const std::string& value, const std::string& name, const std::vector<std::string>& known,
                       const std::string& origin) {
  if (std::ranges::find(known, value) == known.end())
    throw Error(cat(origin, ": ", name, ": got '", value, "'; expected ", join(known, " or ")));
}

}  // namespace fovea::text
