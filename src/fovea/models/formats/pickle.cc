#include "fovea/models/formats/pickle.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::models {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kOrderedDict = "collections OrderedDict", kTensor = "torch._utils _rebuild_tensor_v2",
                           kParameter = "torch._utils _rebuild_parameter";

bool is_known_class(std::string_view name) {
  static constexpr std::array kStorages = {"Float", "Half",  "BFloat16", "Double", "Long",
                                           "Int",   "Short", "Char",     "Byte",   "Bool"};
  if (name == kOrderedDict || name == kTensor || name == kParameter) return true;
  return std::ranges::any_of(kStorages, [&](const char* type) { return name == cat("torch ", type, "Storage"); });
}

// The machine of a pickle: a stack of values, marks on it, and values that were noted for later.
class Machine {
 public:
  Machine(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  Pickle run() {
    while (!is_done_) step(static_cast<unsigned char>(take(1)[0]));
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(cat(source_, ": ", what,
                    "; nothing of the file was executed; expected tensors as torch.save() writes "
                    "them, or the same weights as model.safetensors"));
  }
  [[noreturn]] void fail_damaged() const { fail(cat("is damaged at byte ", at_, " of its pickle")); }

  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_) fail(cat("is cut short at byte ", at_, " of its pickle"));
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }
  // Little endian.
  uint64_t whole(size_t count) {
    uint64_t value = 0;
    const std::string_view part = take(count);
    for (size_t i = count; i > 0; --i) value = (value << 8) | static_cast<unsigned char>(part[i - 1]);
    return value;
  }
  int64_t signed_whole(size_t count) {
    const uint64_t value = whole(count);
    if (count == 0 || count == 8) return static_cast<int64_t>(value);
    const bool is_negative = ((value >> (8 * count - 1)) & 1) != 0;
    return static_cast<int64_t>(is_negative ? value | (~uint64_t{0} << (8 * count)) : value);
  }
  std::string line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail_damaged();
    const std::string text(take(end - at_));
    (void)take(1);
    return text;
  }

  void push(PickleValue value) {
    stack_.push_back(pickle_.values.size());
    pickle_.values.push_back(std::move(value));
  }
  void push_text(size_t count) { push({.kind = Kind::kText, .text = std::string(take(count))}); }
  size_t pop() {
    const size_t least = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= least) fail_damaged();
    const size_t place = stack_.back();
    stack_.pop_back();
    return place;
  }
  PickleValue& top() {
    if (stack_.empty()) fail_damaged();
    return pickle_.values[stack_.back()];
  }
  // The values behind the last mark, which leave the stack.
  std::vector<size_t> pop_mark() {
    if (marks_.empty()) fail_damaged();
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<size_t> places(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return places;
  }
  const PickleValue& value(size_t place, Kind kind) const {
    const PickleValue& found = pickle_.values[place];
    if (found.kind != kind) fail_damaged();
    return found;
  }

  void push_class(const std::string& name) {
    if (!is_known_class(name)) {
      std::string shown = name;
      std::ranges::replace(shown, ' ', '.');
      fail(cat("names '", one_line(shown.substr(0, 100)), "', which is not a class of tensors"));
    }
    push({.kind = Kind::kClass, .text = name});
  }

  void push_tuple(size_t count) {
    std::vector<size_t> places(count);
    for (size_t i = count; i > 0; --i) places[i - 1] = pop();
    push({.kind = Kind::kTuple, .items = std::move(places)});
  }

  void add_items(const std::vector<size_t>& places, Kind kind) {
    PickleValue& target = top();
    if (target.kind != kind || (kind == Kind::kDict && places.size() % 2 != 0)) fail_damaged();
    target.items.insert(target.items.end(), places.begin(), places.end());
  }

  void note(uint64_t number) {
    if (stack_.empty()) fail_damaged();
    notes_[number] = stack_.back();
  }
  void recall(uint64_t number) {
    const auto found = notes_.find(number);
    if (found == notes_.end()) fail_damaged();
    stack_.push_back(found->second);
  }

  // The items of a tuple that a storage or a call has.
  std::vector<size_t> few_items(size_t place) const {
    constexpr size_t kMost = 8;
    const PickleValue& tuple = value(place, Kind::kTuple);
    if (tuple.items.size() > kMost) fail_damaged();
    return tuple.items;
  }

  // ("storage", class, key, device, number of elements), and in old files no view of another storage.
  void push_storage() {
    const std::vector<size_t> id = few_items(pop());
    if (id.size() < 5 || value(id[0], Kind::kText).text != "storage") fail_damaged();
    if (id.size() > 5 && pickle_.values[id[5]].kind != Kind::kNone) fail("holds a storage that is a part of another");
    (void)value(id[1], Kind::kClass), (void)value(id[4], Kind::kNumber);
    push({.kind = Kind::kStorage, .text = value(id[2], Kind::kText).text, .items = {id[1], id[4]}});
  }

  // Makes the result of calling a known function.
  void reduce() {
    const std::vector<size_t> given = few_items(pop());
    const std::string function = value(pop(), Kind::kClass).text;
    if (function == kOrderedDict && given.empty()) {
      push({.kind = Kind::kDict});
    } else if (function == kTensor && given.size() >= 4) {
      (void)value(given[0], Kind::kStorage), (void)value(given[1], Kind::kNumber);
      (void)value(given[2], Kind::kTuple), (void)value(given[3], Kind::kTuple);
      push({.kind = Kind::kTensor, .items = {given[0], given[1], given[2], given[3]}});
    } else if (function == kParameter && !given.empty()) {
      (void)value(given[0], Kind::kTensor);
      stack_.push_back(given[0]);
    } else {
      fail_damaged();
    }
  }

  // Attributes of a dictionary, such as the versions of modules, say nothing of tensors.
  void build() {
    (void)pop();
    if (top().kind != Kind::kDict) fail_damaged();
  }

  void step(unsigned char code) {
    if (!constant(code) && !container(code) && !object(code))
      fail(cat("has the instruction ", static_cast<int>(code), " in its pickle, which no file of tensors has"));
  }

  bool constant(unsigned char code) {
    switch (code) {
      case 0x80:
        (void)take(1);
        return true;  // PROTO
      case 0x95:
        (void)take(8);
        return true;  // FRAME
      case 'N':
        push({});
        return true;
      case 0x88:
      case 0x89:
        push({.kind = Kind::kTruth, .number = code == 0x88 ? 1 : 0});
        return true;
      case 'K':
        push({.kind = Kind::kNumber, .number = static_cast<int64_t>(whole(1))});
        return true;
      case 'M':
        push({.kind = Kind::kNumber, .number = static_cast<int64_t>(whole(2))});
        return true;
      case 'J':
        push({.kind = Kind::kNumber, .number = signed_whole(4)});
        return true;
      case 0x8a:
        push_long(whole(1));
        return true;
      case 'G':
        (void)take(8), push({.kind = Kind::kReal});
        return true;
      case 'X':
        push_text(whole(4));
        return true;
      case 0x8c:
      case 'U':
        push_text(whole(1));
        return true;
      case 0x8d:
        push_text(whole(8));
        return true;
      case 'T':
        push_text(whole(4));
        return true;
      default:
        return false;
    }
  }
  // A number of more than 8 bytes is the mark with which old files begin, whose bytes are its text.
  void push_long(uint64_t count) {
    if (count <= 8) return push({.kind = Kind::kNumber, .number = signed_whole(count)});
    push({.kind = Kind::kReal, .text = std::string(take(count))});
  }

  bool container(unsigned char code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        (void)pop();
        return true;
      case '1':
        (void)pop_mark();
        return true;
      case ']':
        push({.kind = Kind::kList});
        return true;
      case '}':
        push({.kind = Kind::kDict});
        return true;
      case ')':
        push({.kind = Kind::kTuple});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(code - 0x84U);
        return true;
      case 't':
        push({.kind = Kind::kTuple, .items = pop_mark()});
        return true;
      case 'a':
        add_items({pop()}, Kind::kList);
        return true;
      case 'e':
        add_items(pop_mark(), Kind::kList);
        return true;
      case 's': {
        const size_t second = pop(), first = pop();
        add_items({first, second}, Kind::kDict);
        return true;
      }
      case 'u':
        add_items(pop_mark(), Kind::kDict);
        return true;
      default:
        return false;
    }
  }

  bool object(unsigned char code) {
    switch (code) {
      case 'q':
        note(whole(1));
        return true;
      case 'r':
        note(whole(4));
        return true;
      case 0x94:
        note(notes_.size());
        return true;
      case 'h':
        recall(whole(1));
        return true;
      case 'j':
        recall(whole(4));
        return true;
      case 'c': {
        const std::string module = line();
        push_class(cat(module, " ", line()));
        return true;
      }
      case 0x93: {
        const std::string name = value(pop(), Kind::kText).text;
        push_class(cat(value(pop(), Kind::kText).text, " ", name));
        return true;
      }
      case 'Q':
        push_storage();
        return true;
      case 'R':
        reduce();
        return true;
      case 'b':
        build();
        return true;
      case '.':
        pickle_.root = pop();
        is_done_ = true;
        return true;
      default:
        return false;
    }
  }

  std::string_view bytes_;
  const std::string& source_;
  size_t at_ = 0;
  bool is_done_ = false;
  Pickle pickle_;
  std::vector<size_t> stack_, marks_;
  std::map<uint64_t, size_t> notes_;
};

}  // namespace

Pickle parse_pickle(std::string_view bytes, const std::string& source) { return Machine(bytes, source).run(); }

}  // namespace fovea::models
