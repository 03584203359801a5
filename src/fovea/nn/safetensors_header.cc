#include "fovea/nn/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::nn {
namespace {
using Json = nlohmann::json;  // finds a key by its tree; ordered_json looks through all of them

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

constexpr size_t kLengthBytes = kSafetensorsLengthBytes;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxDimensions = 64;              // libtorch's own limit
constexpr int kMaxDepth = 3;                       // { name: { shape: [ ... ] } }

constexpr std::array<std::pair<std::string_view, uint64_t>, 13> kElementSizes = {{{"F64", 8},
                                                                                  {"I64", 8},
                                                                                  {"U64", 8},
                                                                                  {"F32", 4},
                                                                                  {"I32", 4},
                                                                                  {"U32", 4},
                                                                                  {"F16", 2},
                                                                                  {"BF16", 2},
                                                                                  {"I16", 2},
                                                                                  {"U16", 2},
                                                                                  {"I8", 1},
                                                                                  {"U8", 1},
                                                                                  {"BOOL", 1}}};

// Checks the header's text before it is parsed: JSON, no deeper than headers are, no key of an object twice (the parser
// would keep the last one). The parser's own callback could do this, but its time is the square of the number of keys.
class HeaderCheck : public nlohmann::json_sax<Json> {
 public:
  const std::string& problem() const { return problem_; }  // empty: there is none

  bool start_object(size_t) override {
    keys_.emplace_back();
    return descend();
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    problem_ = cat("its header has '", name, "' twice");
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return descend(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    problem_ = cat("its header is not JSON: ", error.what());
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

 private:
  bool descend() {
    if (++depth_ > kMaxDepth) problem_ = "its header is nested too deeply";
    return problem_.empty();
  }

  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  int depth_ = 0;
  std::string problem_;
};

// Everything that is wrong with a file is said with its name.
class HeaderReader {
 public:
  HeaderReader(std::string_view begin, std::string_view source, size_t file_size)
      : begin_(begin), source_(source), file_size_(file_size) {}

  SafetensorsHeader read() {
    SafetensorsHeader header;
    const std::string_view text = json_text();
    header.data_start = kLengthBytes + text.size();
    const Json root = parse(text);
    if (!root.is_object()) refuse("its header is not a JSON object");
    for (const auto& [name, value] : root.items()) {
      if (name == "__metadata__") {
        read_metadata(value, header.metadata);
      } else {
        header.entries.push_back(read_entry(name, value));
      }
    }
    check_layout(header);
    return header;
  }

 private:
  template <class... T>
  [[noreturn]] void refuse(const T&... what) const {
    throw Error(cat(source_, ": ", what...));
  }

  std::string_view json_text() const {
    if (file_size_ == 0) refuse("the file is empty; a safetensors file is expected");
    if (file_size_ < kLengthBytes) refuse("cut short: ", file_size_, " bytes, not even the header's length");
    uint64_t length = 0;
    std::memcpy(&length, begin_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes) refuse("not a safetensors file: its header would have ", length, " bytes");
    if (length > file_size_ - kLengthBytes)
      refuse("cut short: the header has ", length, " bytes, the file only ", file_size_);
    const std::string_view text = begin_.substr(kLengthBytes, length);
    if (text.empty() || text[0] != '{') refuse("not a safetensors file: its header does not begin with '{'");
    return text;
  }

  Json parse(std::string_view text) const {
    HeaderCheck check;
    Json::sax_parse(text.begin(), text.end(), &check);
    if (!check.problem().empty()) refuse(check.problem());
    return Json::parse(text.begin(), text.end());
  }

  void read_metadata(const Json& value, std::map<std::string, std::string>& metadata) const {
    if (!value.is_object()) refuse("__metadata__ is not a map of strings");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse("__metadata__ is not a map of strings: '", key, "'");
      metadata[key] = text.get<std::string>();
    }
  }

  std::vector<uint64_t> numbers(const std::string& name, const Json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_array()) refuse("tensor '", name, "' has no list '", key, "'");
    std::vector<uint64_t> out;
    for (const Json& item : *found) {
      if (!item.is_number_unsigned()) refuse("tensor '", name, "': ", key, " has an entry that is not a whole number");
      out.push_back(item.get<uint64_t>());
    }
    return out;
  }

  SafetensorsEntry read_entry(const std::string& name, const Json& value) const {
    if (!value.is_object()) refuse("tensor '", name, "' is not described by a map");
    SafetensorsEntry entry;
    entry.name = name;
    const auto dtype = value.find("dtype");
    if (dtype == value.end() || !dtype->is_string()) refuse("tensor '", name, "' has no dtype");
    entry.dtype = dtype->get<std::string>();
    uint64_t bytes = safetensors_element_size(entry.dtype);
    if (bytes == 0) refuse("tensor '", name, "' has the unknown dtype '", entry.dtype, "'");
    if (value.size() != 3) refuse("tensor '", name, "' has keys beside dtype, shape and data_offsets");
    bool empty = false;
    for (const uint64_t size : numbers(name, value, "shape")) {
      // Strides are products of the other sizes, so those must fit even where a size is 0.
      empty = empty || size == 0;
      if (size > INT64_MAX || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)) || bytes > INT64_MAX)
        refuse("tensor '", name, "' has an impossible shape");
      entry.shape.push_back(static_cast<int64_t>(size));
    }
    if (entry.shape.size() > kMaxDimensions)
      refuse("tensor '", name, "' has ", entry.shape.size(), " dimensions; expected at most ", kMaxDimensions);
    if (empty) bytes = 0;
    const std::vector<uint64_t> offsets = numbers(name, value, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      refuse("tensor '", name, "': data_offsets are not [begin, end]");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.end - entry.begin != bytes)
      refuse("tensor '", name, "' has ", entry.end - entry.begin, " bytes, its shape and dtype need ", bytes);
    return entry;
  }

  void check_layout(SafetensorsHeader& header) const {
    std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    const uint64_t available = file_size_ - header.data_start;
    uint64_t reached = 0;
    for (const SafetensorsEntry& entry : header.entries) {
      if (entry.begin > reached) refuse("a hole of ", entry.begin - reached, " bytes before tensor '", entry.name, "'");
      if (entry.begin < reached) refuse("tensor '", entry.name, "' overlaps the one before it");
      if (entry.end > available)
        refuse("cut short: tensor '", entry.name, "' ends at byte ", entry.end, " of the data, which has ", available);
      reached = entry.end;
    }
    if (reached != available) refuse(available - reached, " bytes after the last tensor");
  }

  std::string_view begin_, source_;
  size_t file_size_;
};

}  // namespace

uint64_t safetensors_element_size(std::string_view dtype) {
  for (const auto& [name, size] : kElementSizes) {
    if (name == dtype) return size;
  }
  return 0;
}

size_t safetensors_head_bytes(std::string_view begin) {
  uint64_t length = 0;
  std::memcpy(&length, begin.data(), std::min(begin.size(), kLengthBytes));
  return kLengthBytes + std::min(length, kMaxHeaderBytes);
}

SafetensorsHeader parse_safetensors_header(std::string_view begin, std::string_view source, size_t file_size) {
  return HeaderReader(begin, source, file_size).read();
}

SafetensorsHeader parse_safetensors_header(std::string_view file, std::string_view source) {
  return HeaderReader(file, source, file.size()).read();
}

std::string print_safetensors_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root["__metadata__"] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries)
    root[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  std::string text = root.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const uint64_t length = text.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text;
}

}  // namespace fovea::nn
