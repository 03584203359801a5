#include "fovea/text/chat_template.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/chat_syntax.h"
#include "fovea/text/chat_value.h"

namespace fovea::text {
namespace {

constexpr int64_t kMostSteps = 1'000'000, kMostBytes = int64_t{1} << 28;

// One rendering of a template.
class Renderer {
 public:
  explicit Renderer(std::time_t now) : now_(now), scopes_(1) {}

  void set(const std::string& name, ChatValue value) { scopes_.back()[name] = std::move(value); }
  std::string render(const std::vector<ChatNode>& nodes) {
    (void)run(nodes);
    return std::move(output_);
  }

 private:
  using Scope = std::map<std::string, ChatValue>;
  using Kind = ChatExpression::Kind;
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  // A template may loop over lists that it makes, and double texts.
  void count(size_t bytes = 0) {
    bytes_ += static_cast<int64_t>(bytes);
    if (++steps_ > kMostSteps || bytes_ > kMostBytes) fail_chat("works or writes without an end");
  }

  Flow run(const std::vector<ChatNode>& nodes) {
    for (const ChatNode& node : nodes)
      if (const Flow flow = run(node); flow != Flow::kOn) return flow;
    return Flow::kOn;
  }

  Flow run(const ChatNode& node) {
    count();
    switch (node.kind) {
      case ChatNode::Kind::kText:
        write(node.text);
        return Flow::kOn;
      case ChatNode::Kind::kPrint:
        write(printed(value_of(*node.value)));
        return Flow::kOn;
      case ChatNode::Kind::kIf:
        return run(is_true(value_of(*node.value)) ? node.body : node.otherwise);
      case ChatNode::Kind::kFor:
        run_loop(node);
        return Flow::kOn;
      case ChatNode::Kind::kSet:
        assign(node);
        return Flow::kOn;
      case ChatNode::Kind::kBreak:
        return Flow::kBreak;
      case ChatNode::Kind::kContinue:
        return Flow::kContinue;
      case ChatNode::Kind::kBody:
        return run(node.body);
    }
    return Flow::kOn;
  }

  void write(const std::string& text) {
    count(text.size());
    output_ += text;
  }

  void assign(const ChatNode& node) {
    ChatValue value;
    if (node.value) {
      value = value_of(*node.value);
    } else {
      std::string outside = std::exchange(output_, {});
      scopes_.emplace_back();
      (void)run(node.body);
      scopes_.pop_back();
      value = {std::exchange(output_, std::move(outside))};
    }
    if (node.attribute.empty()) return set(node.names.front(), std::move(value));
    const ChatValue target = find(node.names.front());
    if (target.dict() == nullptr || value.dict() != nullptr || value.list() != nullptr)
      fail_chat(cat("sets the attribute ", node.attribute, " of ", type_name(target), " to ", type_name(value),
                    ", which is not known here"));
    const auto found = std::ranges::find(*target.dict(), node.attribute, &std::pair<std::string, ChatValue>::first);
    if (found != target.dict()->end()) {
      found->second = std::move(value);
    } else {
      target.dict()->emplace_back(node.attribute, std::move(value));
    }
  }

  // The items of a loop; those of a dictionary are its keys.
  ChatList items_of(const ChatNode& node) {
    const ChatValue whole = value_of(*node.value);
    ChatList items;
    if (whole.list() != nullptr) {
      items = *whole.list();
    } else if (whole.dict() != nullptr) {
      for (const auto& [key, value] : *whole.dict()) items.push_back({key});
    } else if (whole.as<ChatUndefined>() == nullptr) {
      fail_chat(cat("loops over ", type_name(whole)));
    }
    if (!node.condition) return items;
    ChatList chosen;
    for (ChatValue& item : items) {
      scopes_.emplace_back();
      name_item(node, item);
      if (is_true(value_of(*node.condition))) chosen.push_back(std::move(item));
      scopes_.pop_back();
    }
    return chosen;
  }

  void name_item(const ChatNode& node, const ChatValue& item) {
    if (node.names.size() == 1) return set(node.names.front(), item);
    if (item.list() == nullptr || item.list()->size() != node.names.size())
      fail_chat(cat("takes ", node.names.size(), " values from ", type_name(item)));
    for (size_t i = 0; i < node.names.size(); ++i) set(node.names[i], (*item.list())[i]);
  }

  void run_loop(const ChatNode& node) {
    const ChatList items = items_of(node);
    const int64_t size = std::ssize(items);
    for (int64_t i = 0; i < size; ++i) {
      count();
      scopes_.emplace_back();
      name_item(node, items[static_cast<size_t>(i)]);
      const auto neighbour = [&](int64_t place) {
        return place >= 0 && place < size ? items[static_cast<size_t>(place)] : ChatValue{ChatUndefined{"a neighbour"}};
      };
      set("loop", chat_dict({{"index", {i + 1}},
                             {"index0", {i}},
                             {"revindex", {size - i}},
                             {"revindex0", {size - i - 1}},
                             {"first", {i == 0}},
                             {"last", {i + 1 == size}},
                             {"length", {size}},
                             {"previtem", neighbour(i - 1)},
                             {"nextitem", neighbour(i + 1)}}));
      const Flow flow = run(node.body);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    if (items.empty()) (void)run(node.otherwise);
  }

  ChatValue find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return {ChatUndefined{name}};
  }

  ChatValue value_of(const ChatExpression& of) {
    ChatValue value = computed(of);
    count(value.text() == nullptr ? 0 : value.text()->size());
    return value;
  }

  ChatValue computed(const ChatExpression& of) {
    switch (of.kind) {
      case Kind::kText:
        return {of.text};
      case Kind::kNumber:
        return {of.number};
      case Kind::kTruth:
        return {of.number != 0};
      case Kind::kNone:
        return {ChatNone()};
      case Kind::kName:
        return is_function(of.text) ? ChatValue{true} : find(of.text);
      case Kind::kList:
        return chat_list(values_of(of.parts));
      case Kind::kDict:
        return dictionary(of);
      case Kind::kAttribute:
        return member_of(value_of(*of.parts[0]), {of.text});
      case Kind::kItem: {
        const ChatValue whole = value_of(*of.parts[0]);
        return member_of(whole, value_of(*of.parts[1]));
      }
      case Kind::kSlice: {
        const ChatList all = values_of(of.parts);
        count(all[0].list() == nullptr ? 0 : all[0].list()->size());
        return slice_of(all[0], std::span(all).subspan(1));
      }
      case Kind::kCall:
        return call(of);
      case Kind::kFilter: {
        if (!of.named.empty())
          fail_chat(cat("names the arguments of the filter ", of.text, ", which is not known here"));
        const ChatList all = values_of(of.parts);
        return call_filter(all[0], of.text, std::span(all).subspan(1));
      }
      case Kind::kTest:
        return {test(of)};
      case Kind::kNot:
        return {!is_true(value_of(*of.parts[0]))};
      case Kind::kMinus:
        return combined("-", {int64_t{0}}, value_of(*of.parts[0]));
      case Kind::kBinary:
        return binary(of);
      case Kind::kChoice:
        if (is_true(value_of(*of.parts[1]))) return value_of(*of.parts[0]);
        return of.parts[2] ? value_of(*of.parts[2]) : ChatValue{ChatUndefined{"a choice"}};
    }
    return {};
  }

  ChatList values_of(const std::vector<ChatExpressionPointer>& parts) {
    ChatList values;
    for (const ChatExpressionPointer& part : parts) values.push_back(part ? value_of(*part) : ChatValue());
    return values;
  }

  ChatValue dictionary(const ChatExpression& of) {
    ChatDict items;
    for (size_t i = 0; i + 1 < of.parts.size(); i += 2) {
      const ChatValue key = value_of(*of.parts[i]);
      if (key.text() == nullptr) fail_chat(cat("has a dictionary with the key ", type_name(key)));
      items.emplace_back(*key.text(), value_of(*of.parts[i + 1]));
    }
    return chat_dict(std::move(items));
  }

  ChatValue binary(const ChatExpression& of) {
    ChatValue first = value_of(*of.parts[0]);
    if (of.text == "and" || of.text == "or")
      return is_true(first) == (of.text == "or") ? first : value_of(*of.parts[1]);
    return combined(of.text, first, value_of(*of.parts[1]));
  }

  bool test(const ChatExpression& of) {
    const ChatList all = values_of(of.parts);
    return passes_test(all[0], of.text, std::span(all).subspan(1));
  }

  bool is_function(const std::string& name) const {
    constexpr std::array<std::string_view, 4> kFunctions = {"raise_exception", "strftime_now", "namespace", "range"};
    return std::ranges::find(kFunctions, name) != kFunctions.end() && find(name).as<ChatUndefined>() != nullptr;
  }

  ChatValue call(const ChatExpression& of) {
    const ChatExpression& callee = *of.parts[0];
    const std::span arguments_of(of.parts.data() + 1, of.parts.size() - 1);
    ChatList arguments;
    for (const ChatExpressionPointer& part : arguments_of) arguments.push_back(value_of(*part));
    if (callee.kind == Kind::kAttribute && of.named.empty())
      return call_method(value_of(*callee.parts[0]), callee.text, arguments);
    if (callee.kind != Kind::kName || !is_function(callee.text))
      fail_chat(cat("calls ", callee.kind == Kind::kName ? callee.text : "a value", ", which is not known here"));
    if (callee.text == "namespace") return name_space(of, arguments);
    if (!of.named.empty()) fail_chat(cat("names the arguments of ", callee.text));
    if (callee.text == "range") return range(arguments);
    if (arguments.size() != 1 || arguments[0].text() == nullptr)
      fail_chat(cat("calls ", callee.text, " without one text"));
    if (callee.text == "raise_exception") fail_chat(cat("refuses the conversation: ", one_line(*arguments[0].text())));
    return {formatted_time(*arguments[0].text())};
  }

  ChatValue name_space(const ChatExpression& of, const ChatList& arguments) {
    if (!arguments.empty()) fail_chat("calls namespace with values that have no names");
    ChatDict items;
    for (const auto& [name, value] : of.named) items.emplace_back(name, value_of(*value));
    return chat_dict(std::move(items));
  }

  ChatValue range(const ChatList& arguments) {
    std::vector<int64_t> numbers;
    for (const ChatValue& argument : arguments) {
      if (argument.as<int64_t>() == nullptr) fail_chat(cat("calls range with ", type_name(argument)));
      numbers.push_back(*argument.as<int64_t>());
    }
    if (numbers.empty() || numbers.size() > 3 || (numbers.size() == 3 && numbers[2] == 0))
      fail_chat("calls range without one to three numbers");
    const int64_t first = numbers.size() == 1 ? 0 : numbers[0], last = numbers.size() == 1 ? numbers[0] : numbers[1];
    const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
    ChatList items;
    for (int64_t i = first; step > 0 ? i < last : i > last; i += step) items.push_back({i}), count();
    return chat_list(std::move(items));
  }

  std::string formatted_time(const std::string& format) const {
    std::tm parts{};
    std::array<char, 256> text{};
    localtime_r(&now_, &parts);
    const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
    if (size == 0 && !format.empty()) fail_chat("asks for a time in a form that is too long");
    return {text.data(), size};
  }

  std::time_t now_;
  std::vector<Scope> scopes_;
  std::string output_;
  int64_t steps_ = 0, bytes_ = 0;
};

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, const std::string& origin)
    : origin_(origin), nodes_(std::make_shared<const std::vector<ChatNode>>(parse_chat_template(text, origin))) {}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const ChatSettings& settings) const {
  Renderer renderer(settings.now);
  ChatList all;
  for (const ChatMessage& message : messages)
    all.push_back(chat_dict({{"role", {message.role}}, {"content", {message.content}}}));
  renderer.set("messages", chat_list(std::move(all)));
  for (const char* name : {"tools", "documents"}) renderer.set(name, {ChatNone()});
  renderer.set("add_generation_prompt", {settings.asks_for_answer});
  if (!settings.begin.empty()) renderer.set("bos_token", {settings.begin});
  if (!settings.end.empty()) renderer.set("eos_token", {settings.end});
  return renderer.render(*nodes_);
}

}  // namespace fovea::text
