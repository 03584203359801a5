#include "fovea/models/formats/torch_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/pickle.h"

namespace fovea::models {
namespace {

using Kind = PickleValue::Kind;

// Numbers at places of the file.
class Places {
 public:
  Places(std::string_view file, const std::string& source) : file_(file), source_(source) {}

  [[noreturn]] void fail() const {
    throw Error(cat(source_, ": is damaged or cut short; expected what torch.save() wrote"));
  }
  std::string_view part(uint64_t at, uint64_t size) const {
    if (at > file_.size() || size > file_.size() - at) fail();
    return file_.substr(at, size);
  }
  uint64_t number(uint64_t at, size_t bytes) const {
    uint64_t value = 0;
    const std::string_view own = part(at, bytes);
    for (size_t i = bytes; i > 0; --i) value = (value << 8) | static_cast<unsigned char>(own[i - 1]);
    return value;
  }
  std::string_view file() const { return file_; }

 private:
  std::string_view file_;
  const std::string& source_;
};

using Members = std::map<std::string, std::string_view>;

constexpr std::string_view kEnd = "PK\5\6", kWideEnd = "PK\6\6", kWidePlace = "PK\6\7", kEntry = "PK\1\2",
                           kLocal = "PK\3\4";
constexpr uint64_t kNarrow = 0xffffffff;

// The sizes and the place of a member, which an extra field has if they do not fit 32 bits.
struct MemberSizes {
  uint64_t packed, unpacked, local;
};
void widen(MemberSizes& sizes, std::string_view extra, const Places& places) {
  const Places own(extra, "");
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    const uint64_t kind = own.number(at, 2), size = own.number(at + 2, 2);
    at += 4;
    if (kind == 1) {
      uint64_t next = at;
      for (uint64_t* value : {&sizes.unpacked, &sizes.packed, &sizes.local}) {
        if (*value != kNarrow) continue;
        if (next + 8 > at + size || next + 8 > extra.size()) places.fail();
        *value = own.number(next, 8);
        next += 8;
      }
    }
    at += size;
  }
}

// The members of a zip archive as torch.save() writes them: none is compressed, and none shares bytes with another.
Members members_of(const Places& places, const std::string& source) {
  const std::string_view file = places.file();
  constexpr uint64_t kEndBytes = 22;  // without the comment behind it
  const size_t end = file.rfind(kEnd);
  if (end == std::string_view::npos || end + kEndBytes + places.number(end + 20, 2) != file.size()) places.fail();
  uint64_t count = places.number(end + 10, 2), at = places.number(end + 16, 4);
  if (end >= 20 && file.substr(end - 20, 4) == kWidePlace) {
    const uint64_t wide = places.number(end - 12, 8);
    if (places.part(wide, 4) != kWideEnd) places.fail();
    count = places.number(wide + 32, 8), at = places.number(wide + 48, 8);
  }
  Members members;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (uint64_t i = 0; i < count; ++i) {
    if (places.part(at, 4) != kEntry) places.fail();
    MemberSizes sizes = {places.number(at + 20, 4), places.number(at + 24, 4), places.number(at + 42, 4)};
    const uint64_t name_size = places.number(at + 28, 2), extra = places.number(at + 30, 2);
    const std::string name(places.part(at + 46, name_size));
    widen(sizes, places.part(at + 46 + name_size, extra), places);
    if (places.number(at + 10, 2) != 0 || sizes.packed != sizes.unpacked)
      throw Error(cat(source, ": the member '", one_line(name), "' is compressed; expected what torch.save() wrote"));
    if (places.part(sizes.local, 4) != kLocal) places.fail();
    const uint64_t begin = sizes.local + 30 + places.number(sizes.local + 26, 2) + places.number(sizes.local + 28, 2);
    if (!members.emplace(name, places.part(begin, sizes.unpacked)).second) places.fail();
    ranges.emplace_back(begin, begin + sizes.unpacked);
    at += 46 + name_size + extra + places.number(at + 32, 2);
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) places.fail();
  return members;
}

size_t element_size(std::string_view type) {
  if (type == "Double" || type == "Long") return 8;
  if (type == "Float" || type == "Int") return 4;
  return type == "Half" || type == "BFloat16" || type == "Short" ? 2 : 1;
}

// "torch FloatStorage" -> "Float".
std::string type_of_class(const std::string& name) {
  return name.substr(6, name.size() - 6 - std::string_view("Storage").size());
}

// Reads the dictionary of a pickle, whose storages have their bytes by their keys.
class Dictionary {
 public:
  Dictionary(const Pickle& pickle, const Members& storages, const std::string& source)
      : pickle_(pickle), storages_(storages), source_(source) {}

  std::vector<TorchTensor> read() const {
    const PickleValue& root = pickle_.at(pickle_.root);
    if (root.kind != Kind::kDict) throw Error(cat(source_, ": is not a dictionary; expected the tensors of a model"));
    std::vector<TorchTensor> tensors;
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const PickleValue &name = pickle_.at(root.items[i]), &value = pickle_.at(root.items[i + 1]);
      if (name.kind != Kind::kText || value.kind != Kind::kTensor)
        throw Error(cat(source_, ": ", name.kind == Kind::kText ? cat("'", one_line(name.text), "'") : "an entry",
                        " is not a tensor; expected the tensors of a model by their names"));
      tensors.push_back(tensor_of(name.text, value));
    }
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw Error(cat(source_, ": tensor '", one_line(name), "' ", what));
  }
  std::vector<int64_t> numbers_of(size_t place, const std::string& name) const {
    std::vector<int64_t> numbers;
    for (const size_t item : pickle_.at(place).items) {
      const PickleValue& value = pickle_.at(item);
      if (value.kind != Kind::kNumber || value.number < 0) fail(name, "has a size that is not a number");
      numbers.push_back(value.number);
    }
    return numbers;
  }

  TorchTensor tensor_of(const std::string& name, const PickleValue& value) const {
    constexpr size_t kMostDimensions = 16;
    const PickleValue& storage = pickle_.at(value.items[0]);
    if (pickle_.at(value.items[2]).items.size() > kMostDimensions) fail(name, "has too many dimensions");
    TorchTensor tensor = {.name = name,
                          .type = type_of_class(pickle_.at(storage.items[0]).text),
                          .storage = {},
                          .offset = pickle_.at(value.items[1]).number,
                          .shape = numbers_of(value.items[2], name),
                          .strides = numbers_of(value.items[3], name)};
    const auto found = storages_.find(storage.text);
    if (found == storages_.end()) fail(name, cat("has the storage '", one_line(storage.text), "', which is missing"));
    tensor.storage = found->second;
    const int64_t elements = pickle_.at(storage.items[1]).number;
    const size_t size = element_size(tensor.type);
    if (elements < 0 || tensor.storage.size() / size != static_cast<uint64_t>(elements) ||
        tensor.storage.size() % size != 0)
      fail(name, cat("has a storage of ", tensor.storage.size(), " bytes; expected ", elements, " elements of ", size));
    if (!lies_within(tensor, elements)) fail(name, "does not lie within its storage");
    return tensor;
  }

  static bool lies_within(const TorchTensor& tensor, int64_t elements) {
    if (tensor.shape.size() != tensor.strides.size() || tensor.offset < 0 || tensor.offset > elements) return false;
    int64_t count = 1, last = tensor.offset;
    if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return true;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] > elements / count) return false;
      count *= tensor.shape[i];
      const int64_t steps = tensor.shape[i] - 1, room = elements - 1 - last;
      if (steps > 0 && tensor.strides[i] > room / steps) return false;
      last += steps * tensor.strides[i];
    }
    return last < elements;
  }

  const Pickle& pickle_;
  const Members& storages_;
  const std::string& source_;
};

std::vector<TorchTensor> parse_zip(std::string_view file, const std::string& source) {
  constexpr std::string_view kPickle = "/data.pkl", kOrder = "/byteorder", kData = "/data/";
  const Members members = members_of(Places(file, source), source);
  const auto pickle =
      std::ranges::find_if(members, [&](const auto& member) { return member.first.ends_with(kPickle); });
  if (pickle == members.end()) throw Error(cat(source, ": has no data.pkl; expected what torch.save() wrote"));
  const std::string folder = pickle->first.substr(0, pickle->first.size() - kPickle.size());
  if (const auto order = members.find(cat(folder, kOrder)); order != members.end() && order->second != "little")
    throw Error(cat(source, ": has the byte order '", one_line(std::string(order->second.substr(0, 20))),
                    "'; expected little"));
  Members storages;
  for (const auto& [name, bytes] : members)
    if (name.starts_with(cat(folder, kData))) storages.emplace(name.substr(folder.size() + kData.size()), bytes);
  return Dictionary(parse_pickle(pickle->second, source), storages, source).read();
}

// The bytes of the number with which old files begin.
constexpr std::string_view kOldMark("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

bool is_little_endian(const Pickle& system) {
  const PickleValue& root = system.at(system.root);
  for (size_t i = 0; root.kind == Kind::kDict && i + 1 < root.items.size(); i += 2) {
    if (system.at(root.items[i]).text == "little_endian") return system.at(root.items[i + 1]).number == 1;
  }
  return false;
}

// Old files are pickles one after the other: a mark, a version, the system, the dictionary, the keys of the storages;
// then each storage's number of elements and its bytes.
std::vector<TorchTensor> parse_old(std::string_view file, const std::string& source) {
  size_t at = 0;
  const auto next = [&] {
    Pickle pickle = parse_pickle(file.substr(at), source);
    at += pickle.bytes;
    return pickle;
  };
  const Pickle mark = next(), version = next(), system = next();
  if (mark.at(mark.root).text != kOldMark || version.at(version.root).number != 1001 || !is_little_endian(system))
    throw Error(cat(source, ": is not a file of torch.save(), or not of a little-endian machine"));
  const Pickle dictionary = next(), keys = next();
  std::map<std::string, size_t> sizes;  // of the elements, by key
  for (const PickleValue& value : dictionary.values)
    if (value.kind == Kind::kStorage)
      sizes[value.text] = element_size(type_of_class(dictionary.at(value.items[0]).text));
  const Places places(file, source);
  Members storages;
  for (const size_t item : keys.at(keys.root).items) {
    const std::string& key = keys.at(item).text;
    const auto size = sizes.find(key);
    const uint64_t count = places.number(at, 8);
    if (size == sizes.end() || count > file.size()) places.fail();
    if (!storages.emplace(key, places.part(at + 8, count * size->second)).second) places.fail();
    at += 8 + count * size->second;
  }
  return Dictionary(dictionary, storages, source).read();
}

}  // namespace

std::vector<TorchTensor> parse_torch_file(std::string_view file, const std::string& source) {
  if (file.starts_with(kLocal)) return parse_zip(file, source);
  if (file.starts_with("\x80\x02\x8a\x0a")) return parse_old(file, source);
  throw Error(cat(source, ": is not a file of torch.save(); expected a zip archive of tensors"));
}

}  // namespace fovea::models
