#include "fovea/text/chat_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const size_t size = first_character(text).size;
    characters.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return characters;
}

const std::string& text_of(const ChatValue& value, std::string_view what) {
  if (value.text() == nullptr) fail_chat(cat("asks for ", what, " of ", type_name(value)));
  return *value.text();
}
int64_t number_of(const ChatValue& value) {
  if (const auto* number = value.as<int64_t>()) return *number;
  if (const auto* truth = value.as<bool>()) return *truth ? 1 : 0;
  fail_chat(cat("uses ", type_name(value), " as a number"));
}
bool is_number(const ChatValue& value) { return value.as<int64_t>() != nullptr || value.as<bool>() != nullptr; }

// Python's strip(): white space, or the characters of a text.
enum class Side : uint8_t { kBoth, kLeft, kRight };
std::string stripped(std::string_view text, const std::optional<std::string>& set, Side side) {
  const std::vector<std::string> of_set = set ? characters_of(*set) : std::vector<std::string>();
  const auto goes = [&](std::string_view character) {
    return set ? std::ranges::find(of_set, character) != of_set.end() : white_space_size(character) == character.size();
  };
  while (side != Side::kRight && !text.empty()) {
    const size_t size = first_character(text).size;
    if (!goes(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (side != Side::kLeft && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (!goes(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

ChatValue split_text(const std::string& text, const std::string& by, int64_t most) {
  if (by.empty()) fail_chat("splits a text at an empty one");
  ChatList parts;
  size_t at = 0;
  for (size_t found = text.find(by); found != std::string::npos && (most < 0 || std::ssize(parts) < most);
       found = text.find(by, at)) {
    parts.push_back({text.substr(at, found - at)});
    at = found + by.size();
  }
  parts.push_back({text.substr(at)});
  return chat_list(std::move(parts));
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) fail_chat("replaces an empty text");
  std::string result;
  size_t at = 0;
  for (size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    result.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  return result.append(text, at);
}

// Letters of ASCII alone, beyond which Python's rules are long.
std::string with_case(const std::string& text, std::string_view name) {
  if (std::ranges::any_of(text, [](char c) { return (c & 0x80) != 0; }))
    fail_chat(cat("uses ", name, " of letters beyond ASCII, which is not known here"));
  std::string result = lower(text);
  if (name == "upper") {
    std::ranges::transform(result, result.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  } else if (name == "title" || name == "capitalize") {
    bool begins = true;
    for (char& c : result) {
      const bool is_letter = c >= 'a' && c <= 'z';
      if (is_letter && begins) c = static_cast<char>(c - 'a' + 'A');
      begins = name == "title" && !is_letter;
      if (name == "title" && c == '\'') fail_chat("uses title of a text with an apostrophe, which is not known here");
    }
  }
  return result;
}

nlohmann::ordered_json json_of(const ChatValue& value, int depth = 0) {
  using Json = nlohmann::ordered_json;
  if (depth > 50) fail_chat("writes JSON that is too deep");
  if (value.text() != nullptr) return *value.text();
  if (const auto* truth = value.as<bool>()) return *truth;
  if (const auto* number = value.as<int64_t>()) return *number;
  if (value.as<ChatNone>() != nullptr) return nullptr;
  Json json;
  if (value.list() != nullptr) {
    json = Json::array();
    for (const ChatValue& item : *value.list()) json.push_back(json_of(item, depth + 1));
  } else if (value.dict() != nullptr) {
    json = Json::object();
    for (const auto& [name, item] : *value.dict()) json[name] = json_of(item, depth + 1);
  } else {
    fail_chat("writes an undefined value as JSON");
  }
  return json;
}

// json.dumps(): blanks behind commas and colons.
std::string dumped(const nlohmann::ordered_json& json) {
  std::string text;
  if (json.is_array()) {
    for (const auto& item : json) text += cat(text.empty() ? "" : ", ", dumped(item));
    return cat("[", text, "]");
  }
  if (json.is_object()) {
    for (const auto& [name, item] : json.items())
      text += cat(text.empty() ? "" : ", ", nlohmann::ordered_json(name).dump(), ": ", dumped(item));
    return cat("{", text, "}");
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void require_arguments(std::string_view name, std::span<const ChatValue> arguments, size_t least, size_t most) {
  if (arguments.size() < least || arguments.size() > most)
    fail_chat(cat("gives ", arguments.size(), " arguments to ", name));
}

}  // namespace

ChatValue chat_list(ChatList items) { return {std::make_shared<const ChatList>(std::move(items))}; }
ChatValue chat_dict(ChatDict items) { return {std::make_shared<ChatDict>(std::move(items))}; }

void fail_chat(const std::string& what) { throw Error(cat("the chat template ", what)); }

bool is_true(const ChatValue& value) {
  if (is_number(value)) return number_of(value) != 0;
  if (value.text() != nullptr) return !value.text()->empty();
  if (value.list() != nullptr) return !value.list()->empty();
  return value.dict() != nullptr && !value.dict()->empty();
}

bool is_equal(const ChatValue& a, const ChatValue& b) {
  if (is_number(a) && is_number(b)) return number_of(a) == number_of(b);
  if (a.data.index() != b.data.index()) return false;
  if (a.text() != nullptr) return *a.text() == *b.text();
  if (a.list() != nullptr) return std::ranges::equal(*a.list(), *b.list(), is_equal);
  if (a.dict() == nullptr) return true;
  return a.dict()->size() == b.dict()->size() && std::ranges::all_of(*a.dict(), [&](const auto& pair) {
           const auto same = std::ranges::find(*b.dict(), pair.first, &std::pair<std::string, ChatValue>::first);
           return same != b.dict()->end() && is_equal(pair.second, same->second);
         });
}

std::string type_name(const ChatValue& value) {
  if (const auto* undefined = value.as<ChatUndefined>()) return cat("'", undefined->name, "', which is not defined");
  if (value.as<ChatNone>() != nullptr) return "none";
  if (value.as<bool>() != nullptr) return "a truth";
  if (value.as<int64_t>() != nullptr) return "a number";
  return value.text() != nullptr ? "a text" : value.list() != nullptr ? "a list" : "a dictionary";
}

std::string printed(const ChatValue& value) {
  if (value.text() != nullptr) return *value.text();
  if (const auto* truth = value.as<bool>()) return *truth ? "True" : "False";
  if (const auto* number = value.as<int64_t>()) return std::to_string(*number);
  if (value.as<ChatNone>() != nullptr) return "None";
  if (value.as<ChatUndefined>() != nullptr) return "";
  fail_chat(cat("prints ", type_name(value), ", whose form is not known here"));
}

int64_t chat_length(const ChatValue& value) {
  if (value.text() != nullptr) return std::ssize(characters_of(*value.text()));
  if (value.list() != nullptr) return std::ssize(*value.list());
  if (value.dict() != nullptr) return std::ssize(*value.dict());
  if (value.as<ChatUndefined>() != nullptr) return 0;
  fail_chat(cat("asks for the length of ", type_name(value)));
}

ChatValue member_of(const ChatValue& value, const ChatValue& key) {
  if (value.as<ChatUndefined>() != nullptr) fail_chat(cat("reads a part of ", type_name(value)));
  const std::string name = key.text() != nullptr ? *key.text() : "";
  if (value.dict() != nullptr && key.text() != nullptr) {
    const auto found = std::ranges::find(*value.dict(), name, &std::pair<std::string, ChatValue>::first);
    if (found != value.dict()->end()) return found->second;
  }
  if ((value.list() != nullptr || value.text() != nullptr) && key.as<int64_t>() != nullptr) {
    const int64_t size = chat_length(value), index = *key.as<int64_t>();
    const int64_t place = index < 0 ? index + size : index;
    if (place >= 0 && place < size)
      return value.list() != nullptr ? (*value.list())[static_cast<size_t>(place)]
                                     : ChatValue{characters_of(*value.text())[static_cast<size_t>(place)]};
  }
  return {ChatUndefined{name.empty() ? "a part" : name}};
}

bool contains(const ChatValue& whole, const ChatValue& part) {
  if (whole.text() != nullptr) return whole.text()->find(text_of(part, "a part")) != std::string::npos;
  if (whole.list() != nullptr)
    return std::ranges::any_of(*whole.list(), [&](const ChatValue& item) { return is_equal(item, part); });
  if (whole.dict() != nullptr) return part.text() != nullptr && member_of(whole, part).as<ChatUndefined>() == nullptr;
  if (whole.as<ChatUndefined>() != nullptr) return false;
  fail_chat(cat("looks for a part of ", type_name(whole)));
}

ChatValue slice_of(const ChatValue& value, std::span<const ChatValue> bounds) {
  const bool is_text = value.text() != nullptr;
  if (!is_text && value.list() == nullptr) fail_chat(cat("takes a slice of ", type_name(value)));
  ChatList items;
  if (is_text) {
    for (std::string& character : characters_of(*value.text())) items.push_back({std::move(character)});
  } else {
    items = *value.list();
  }
  const auto given = [&](size_t i) { return bounds[i].as<ChatUndefined>() == nullptr; };
  const int64_t size = std::ssize(items), step = given(2) ? number_of(bounds[2]) : 1;
  if (step == 0) fail_chat("takes a slice with the step 0");
  const auto place = [&](size_t i, int64_t usual) {
    if (!given(i)) return usual;
    int64_t at = number_of(bounds[i]);
    if (at < 0) at += size;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t first = place(0, step > 0 ? 0 : size - 1), last = place(1, step > 0 ? size : -1);
  ChatList chosen;
  for (int64_t i = first; step > 0 ? i < last : i > last; i += step) chosen.push_back(items[static_cast<size_t>(i)]);
  if (!is_text) return chat_list(std::move(chosen));
  std::string text;
  for (const ChatValue& character : chosen) text += *character.text();
  return {text};
}

ChatValue combined(std::string_view sign, const ChatValue& a, const ChatValue& b) {
  if (sign == "~") return {printed(a) + printed(b)};
  if (sign == "==") return {is_equal(a, b)};
  if (sign == "!=") return {!is_equal(a, b)};
  if (sign == "in") return {contains(b, a)};
  if (sign == "not in") return {!contains(b, a)};
  if (sign == "+" && a.text() != nullptr && b.text() != nullptr) return {*a.text() + *b.text()};
  if (sign == "+" && a.list() != nullptr && b.list() != nullptr) {
    ChatList both = *a.list();
    both.insert(both.end(), b.list()->begin(), b.list()->end());
    return chat_list(std::move(both));
  }
  if (!is_number(a) || !is_number(b))
    fail_chat(cat("computes ", type_name(a), " ", sign, " ", type_name(b), ", which has no value"));
  constexpr int64_t kMost = int64_t{1} << 40;
  const int64_t x = number_of(a), y = number_of(b);
  if (std::max(std::abs(x), std::abs(y)) > kMost) fail_chat("computes with a number that is too large");
  if (sign == "<") return {x < y};
  if (sign == "<=") return {x <= y};
  if (sign == ">") return {x > y};
  if (sign == ">=") return {x >= y};
  if (sign == "+") return {x + y};
  if (sign == "-") return {x - y};
  if (sign == "*" && std::min(std::abs(x), std::abs(y)) < (1 << 20)) return {x * y};
  if (y == 0 || sign == "*") fail_chat(cat("computes ", x, " ", sign, " ", y));
  const int64_t rest = ((x % y) + y) % y;  // Python's, with the sign of y
  return {sign == "%" ? rest : (x - rest) / y};
}

ChatValue call_method(const ChatValue& object, std::string_view name, std::span<const ChatValue> arguments) {
  const auto text_at = [&](size_t i) { return text_of(arguments[i], name); };
  if (object.text() != nullptr) {
    const std::string& text = *object.text();
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
      require_arguments(name, arguments, 0, 1);
      return {stripped(text, arguments.empty() ? std::nullopt : std::optional(text_at(0)),
                       name == "strip"    ? Side::kBoth
                       : name == "lstrip" ? Side::kLeft
                                          : Side::kRight)};
    }
    if (name == "startswith" || name == "endswith") {
      require_arguments(name, arguments, 1, 1);
      return {name == "startswith" ? text.starts_with(text_at(0)) : text.ends_with(text_at(0))};
    }
    if (name == "split") {
      require_arguments(name, arguments, 1, 2);
      return split_text(text, text_at(0), arguments.size() > 1 ? number_of(arguments[1]) : -1);
    }
    if (name == "replace") {
      require_arguments(name, arguments, 2, 2);
      return {replaced(text, text_at(0), text_at(1))};
    }
    if (name == "upper" || name == "lower" || name == "title" || name == "capitalize") {
      require_arguments(name, arguments, 0, 0);
      return {with_case(text, name)};
    }
  }
  if (object.dict() != nullptr) {
    if (name == "items" || name == "keys" || name == "values") {
      require_arguments(name, arguments, 0, 0);
      ChatList items;
      for (const auto& [key, value] : *object.dict())
        items.push_back(name == "items" ? chat_list({{key}, value}) : name == "keys" ? ChatValue{key} : value);
      return chat_list(std::move(items));
    }
    if (name == "get") {
      require_arguments(name, arguments, 1, 2);
      const ChatValue found = member_of(object, arguments[0]);
      if (found.as<ChatUndefined>() == nullptr) return found;
      return arguments.size() > 1 ? arguments[1] : ChatValue{ChatNone()};
    }
  }
  fail_chat(cat("calls ", name, " of ", type_name(object), ", which is not known here"));
}

ChatValue call_filter(const ChatValue& value, std::string_view name, std::span<const ChatValue> arguments) {
  if (name == "trim") {
    require_arguments(name, arguments, 0, 0);
    return {stripped(printed(value), std::nullopt, Side::kBoth)};
  }
  if (name == "length" || name == "count") return {chat_length(value)};
  if (name == "string" || name == "safe") return {printed(value)};
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return {with_case(printed(value), name)};
  if (name == "default" || name == "d") {
    require_arguments(name, arguments, 0, 2);
    const bool also_false = arguments.size() > 1 && is_true(arguments[1]);
    const bool is_missing = value.as<ChatUndefined>() != nullptr || (also_false && !is_true(value));
    return !is_missing ? value : arguments.empty() ? ChatValue{std::string()} : arguments[0];
  }
  if (name == "first" || name == "last") return member_of(value, {name == "first" ? int64_t{0} : int64_t{-1}});
  if (name == "list" && value.list() != nullptr) return value;
  if (name == "items" && value.dict() != nullptr) return call_method(value, name, arguments);
  if (name == "replace") {
    require_arguments(name, arguments, 2, 2);
    return {replaced(printed(value), text_of(arguments[0], name), text_of(arguments[1], name))};
  }
  if (name == "join" && value.list() != nullptr) {
    require_arguments(name, arguments, 0, 1);
    std::vector<std::string> parts;
    for (const ChatValue& item : *value.list()) parts.push_back(printed(item));
    return {join(parts, arguments.empty() ? "" : text_of(arguments[0], name))};
  }
  if ((name == "selectattr" || name == "rejectattr") && value.list() != nullptr) {
    require_arguments(name, arguments, 1, 3);
    ChatList chosen;
    for (const ChatValue& item : *value.list()) {
      const ChatValue own = member_of(item, arguments[0]);
      const bool passes =
          arguments.size() == 1 ? is_true(own) : passes_test(own, text_of(arguments[1], name), arguments.subspan(2));
      if (passes == (name == "selectattr")) chosen.push_back(item);
    }
    return chat_list(std::move(chosen));
  }
  if (name == "tojson" && arguments.empty()) return {dumped(json_of(value))};
  fail_chat(cat("uses the filter ", name, " on ", type_name(value), ", which is not known here"));
}

bool passes_test(const ChatValue& value, std::string_view name, std::span<const ChatValue> arguments) {
  const bool is_undefined = value.as<ChatUndefined>() != nullptr;
  if (name == "defined") return !is_undefined;
  if (name == "undefined") return is_undefined;
  if (name == "none") return value.as<ChatNone>() != nullptr;
  if (name == "string") return value.text() != nullptr;
  if (name == "mapping") return value.dict() != nullptr;
  if (name == "sequence") return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr;
  if (name == "iterable")
    return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr || is_undefined;
  if (name == "boolean") return value.as<bool>() != nullptr;
  if (name == "integer") return value.as<int64_t>() != nullptr;
  if (name == "number") return is_number(value);
  if (name == "true" || name == "false") return value.as<bool>() != nullptr && *value.as<bool>() == (name == "true");
  if (name == "odd" || name == "even") return (number_of(value) % 2 != 0) == (name == "odd");
  if ((name == "equalto" || name == "eq") && arguments.size() == 1) return is_equal(value, arguments[0]);
  if (name == "in" && arguments.size() == 1) return contains(arguments[0], value);
  fail_chat(cat("uses the test ", name, ", which is not known here"));
}

}  // namespace fovea::text
