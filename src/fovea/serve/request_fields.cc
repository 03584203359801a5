#include "fovea/serve/request_fields.h"

#include <algorithm>
#include <functional>

#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/serve/html_form.h"
#include "fovea/serve/multipart.h"
#include "fovea/text/utf8.h"

namespace fovea::serve {
namespace {

constexpr int64_t kDeepestJson = 32;

// Reading nested values takes memory for each level, and a body of brackets alone has millions of levels.
void require_shallow(const std::string& text) {
  int64_t depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      if (c == '"') is_string = false;
    } else if (c == '"') {
      is_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson)
        throw HttpError(400, cat("the JSON is nested more than ", kDeepestJson, " levels deep; send a flat object"));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Adds a field of a form. A name that comes several times becomes a list.
void add_field(Json& object, const std::string& name, const std::string& value) {
  const auto found = object.find(name);
  if (found == object.end()) {
    object[name] = value;
  } else if (found->is_array()) {
    found->push_back(value);
  } else {
    *found = Json::array({*found, value});
  }
}

// The object of what `parse` reads.
Json form_object(const std::function<FormFields()>& parse) {
  Json object = Json::object();
  try {
    for (const auto& [name, value] : parse()) add_field(object, name, value);
  } catch (const Error& error) {
    throw HttpError(400, error.what());
  }
  return object;
}

// Half a surrogate pair is hard to see: libraries write it for bytes that are not text.
std::string why_not_json(const std::string& text, const Json::parse_error& error) {
  if (error.byte > text.size()) return "it ends too early";
  const bool is_surrogate = std::string_view(error.what()).find("surrogate") != std::string_view::npos;
  return cat("byte ", error.byte, is_surrogate ? " follows half of a surrogate pair" : " is not expected");
}

bool has_type(const Request& request, std::string_view type) {
  const std::string given = lower(request.header("content-type"));
  return trim(std::string_view(given).substr(0, given.find(';'))) == type;
}

}  // namespace

std::string shown_text(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return one_line(std::string(text));
  const std::string_view beginning = text.substr(0, kMost);
  return one_line(std::string(beginning.substr(0, kMost - text::cut_character(beginning)))) + "...";
}

Json parse_json(const std::string& text) {
  constexpr const char* kExpected = "; expected an object like {\"q\": \"text\"}";
  require_shallow(text);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    if (!is_valid_utf8(text)) throw HttpError(400, "the body has bytes that are not UTF-8; send the text in UTF-8");
    throw HttpError(400, cat("the body is not JSON: ", why_not_json(text, error), kExpected));
  } catch (const Json::exception&) {
    throw HttpError(400, cat("the body is not JSON: it has a number that is too large", kExpected));
  }
}

Fields::Fields(const Request& request) {
  if (const std::string_view coding = request.header("content-encoding");
      !coding.empty() && lower(coding) != "identity")
    throw HttpError(415, cat("Content-Encoding: got '", shown_text(coding), "'; send the body as it is"));
  if (has_type(request, "application/x-www-form-urlencoded")) {
    if (std::string_view(request.body).starts_with('{'))
      throw HttpError(
          400, "the body is JSON, but its Content-Type says that it is a form; send Content-Type: application/json");
    object_ = form_object([&] { return parse_form(request.body); });
    is_form_ = true;
  } else if (has_type(request, "multipart/form-data")) {
    object_ = form_object([&] { return parse_multipart(request.body, request.header("content-type")); });
    is_form_ = true;
  } else if (!request.body.empty()) {
    if (!has_type(request, "application/json"))
      throw HttpError(415,
                      cat("Content-Type: got '", shown_text(request.header("content-type")),
                          "'; expected application/json, application/x-www-form-urlencoded or multipart/form-data"));
    object_ = parse_json(request.body);
    if (!object_.is_object())
      throw HttpError(400, cat("the body is not a JSON object; got ", text::shown_json(object_)));
  } else {
    is_form_ = true;
  }
  const Json query = form_object([&] { return parse_form(request.query); });
  for (const auto& [name, value] : query.items())
    if (!object_.contains(name)) object_[name] = value;
}

void Fields::fail(const std::string& name, const std::string& expected) const {
  const Json* const value = find(name);
  if (value == nullptr) throw HttpError(400, cat(name, " is missing; expected ", expected), name);
  throw HttpError(400, cat(name, ": got ", text::shown_json(*value), "; expected ", expected), name);
}

std::string Fields::shown_without_keys() const {
  Json shown = object_;
  for (const char* const name : {"api_key", "auth_key"}) shown.erase(name);
  return shown.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool Fields::is_list(const std::string& name) const {
  const Json* const value = find(name);
  return value != nullptr && value->is_array();
}

std::optional<std::string> Fields::text(const std::string& name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "a text");
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const std::string& name) const {
  const Json* const value = find(name);
  if (value != nullptr && value->is_string()) return {value->get<std::string>()};
  const bool is_list_of_texts = value != nullptr && value->is_array() &&
                                std::ranges::all_of(*value, [](const Json& item) { return item.is_string(); });
  if (!is_list_of_texts) fail(name, "a text or a list of texts");
  return value->get<std::vector<std::string>>();
}

std::vector<std::string> Fields::some_texts(const std::string& name) const {
  std::vector<std::string> values = texts(name);
  if (values.empty()) throw HttpError(400, cat(name, ": got an empty list; expected a text or a list of texts"), name);
  return values;
}

std::optional<bool> Fields::truth(const std::string& name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  if (is_form_ && value->is_string()) {
    const std::string word = lower(value->get<std::string>());
    if (word == "true" || word == "1") return true;
    if (word == "false" || word == "0") return false;
  }
  fail(name, "true or false");
}

std::optional<int64_t> Fields::whole(const std::string& name, int64_t least, int64_t most) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string expected = cat("a whole number from ", least, " to ", most);
  if (is_form_ && value->is_string()) {
    if (const auto number = number_in<int64_t>(value->get<std::string>(), least, most)) return number;
    fail(name, expected);
  }
  if (!value->is_number_integer() || *value < least || *value > most) fail(name, expected);
  return value->get<int64_t>();
}

std::optional<double> Fields::number(const std::string& name, double least, double most) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string expected = cat("a number from ", shortest(least), " to ", shortest(most));
  std::optional<double> number;
  if (value->is_number()) number = value->get<double>();
  if (is_form_ && value->is_string()) number = number_in<double>(value->get<std::string>());
  if (!number || !(*number >= least && *number <= most)) fail(name, expected);
  return number;
}

std::string Fields::choice(const std::string& name, const std::vector<std::string>& known,
                           const std::string& usual) const {
  const std::string value = text(name).value_or(usual);
  if (std::ranges::find(known, value) == known.end()) fail(name, join(known, " or "));
  return value;
}

void Fields::refuse(const std::string& name, const std::string& advice) const {
  const Json* const value = find(name);
  if (value == nullptr) return;
  const bool is_nothing = *value == false || *value == "" || (value->is_structured() && value->empty());
  if (!is_nothing) throw HttpError(400, cat(name, ": got ", text::shown_json(*value), "; ", advice), name);
}

}  // namespace fovea::serve
