#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// The values of chat templates (chat_template.h), and what they can do.
namespace fovea::text {

struct ChatValue;
using ChatList = std::vector<ChatValue>;
using ChatDict = std::vector<std::pair<std::string, ChatValue>>;  // in order

struct ChatUndefined {
  std::string name;
};
struct ChatNone {};

struct ChatValue {
  std::variant<ChatUndefined, ChatNone, bool, int64_t, std::string, std::shared_ptr<const ChatList>,
               std::shared_ptr<ChatDict>>
      data = ChatUndefined{};

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  const std::string* text() const { return as<std::string>(); }
  const ChatList* list() const {
    const auto* pointer = as<std::shared_ptr<const ChatList>>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
  ChatDict* dict() const {
    const auto* pointer = as<std::shared_ptr<ChatDict>>();
    return pointer == nullptr ? nullptr : pointer->get();
  }
};

ChatValue chat_list(ChatList items);
ChatValue chat_dict(ChatDict items);

// An Error of a template's own: what it cannot do.
[[noreturn]] void fail_chat(const std::string& what);

bool is_true(const ChatValue& value);
bool is_equal(const ChatValue& a, const ChatValue& b);
std::string type_name(const ChatValue& value);
std::string printed(const ChatValue& value);
int64_t chat_length(const ChatValue& value);
// An attribute or a key; undefined if there is none.
ChatValue member_of(const ChatValue& value, const ChatValue& key);
bool contains(const ChatValue& whole, const ChatValue& part);
// Elements [first:last:step] of a list or characters of a text; undefined: left out.
ChatValue slice_of(const ChatValue& value, std::span<const ChatValue> bounds);
ChatValue combined(std::string_view sign, const ChatValue& a, const ChatValue& b);

// Methods, filters and tests by their names.
ChatValue call_method(const ChatValue& object, std::string_view name, std::span<const ChatValue> arguments);
ChatValue call_filter(const ChatValue& value, std::string_view name, std::span<const ChatValue> arguments);
bool passes_test(const ChatValue& value, std::string_view name, std::span<const ChatValue> arguments);

}  // namespace fovea::text
