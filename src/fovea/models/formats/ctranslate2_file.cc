#include "fovea/models/formats/ctranslate2_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::models {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kVersion = 6;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& origin) : rest_(bytes), origin_(origin) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take(size_t size) {
    if (size > rest_.size()) fail("is cut short");
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  // A text with its length and a zero byte at its end.
  std::string text() {
    const auto size = number<uint16_t>();
    const std::string_view bytes = take(size);
    if (size == 0 || bytes.back() != '\0') fail("has a name without its end");
    return std::string(bytes.substr(0, size - 1));
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(cat(origin_, ": ", what, "; expected a model.bin of version 6, which CTranslate2 4 writes"));
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  const std::string& origin_;
};

// Bytes of this many numbers; SIZE_MAX if the file cannot hold them.
size_t bytes_of(const std::vector<int64_t>& shape, CTranslate2Type type) {
  size_t bytes = kCTranslate2Sizes.at(static_cast<size_t>(type));
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const int64_t extent : shape) {
    if (bytes > std::numeric_limits<uint32_t>::max() / static_cast<size_t>(extent)) return SIZE_MAX;
    bytes *= static_cast<size_t>(extent);
  }
  return bytes;
}

CTranslate2Variable read_variable(Reader& reader, const std::string& name) {
  constexpr int kMostDimensions = 8;
  CTranslate2Variable variable;
  variable.shape.resize(reader.number<uint8_t>());
  if (variable.shape.size() > kMostDimensions)
    reader.fail(cat("gives the variable '", name, "' ", variable.shape.size(), " dimensions"));
  for (int64_t& extent : variable.shape) extent = reader.number<uint32_t>();
  const auto type = reader.number<uint8_t>();
  if (type >= kCTranslate2Sizes.size()) reader.fail(cat("gives the variable '", name, "' the type ", int{type}));
  variable.type = static_cast<CTranslate2Type>(type);
  variable.bytes = reader.take(reader.number<uint32_t>());
  if (bytes_of(variable.shape, variable.type) != variable.bytes.size())
    reader.fail(
        cat("holds ", variable.bytes.size(), " bytes of the variable '", name, "', not what its dimensions say"));
  return variable;
}

template <class T>
void put_number(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, static_cast<uint16_t>(text.size() + 1));
  out += text;
  out += '\0';
}

void put_variable(std::string& out, const std::string& name, const CTranslate2Variable& variable) {
  put_text(out, name);
  put_number(out, static_cast<uint8_t>(variable.shape.size()));
  for (const int64_t extent : variable.shape) put_number(out, static_cast<uint32_t>(extent));
  put_number(out, static_cast<uint8_t>(variable.type));
  if (variable.bytes.size() > std::numeric_limits<uint32_t>::max())
    throw Error(cat("--to ctranslate2: '", name, "' has more than 4 GiB, which model.bin cannot hold"));
  put_number(out, static_cast<uint32_t>(variable.bytes.size()));
  out += variable.bytes;
}

}  // namespace

CTranslate2File parse_ctranslate2(std::string_view bytes, const std::string& origin) {
  Reader reader(bytes, origin);
  CTranslate2File file;
  const auto version = reader.number<uint32_t>();
  if (version != kVersion) reader.fail(cat("is of version ", version));
  file.specification = reader.text();
  file.revision = reader.number<uint32_t>();
  for (auto left = reader.number<uint32_t>(); left > 0; --left) {
    const std::string name = reader.text();
    if (!file.variables.emplace(name, read_variable(reader, name)).second)
      reader.fail(cat("holds the variable '", name, "' twice"));
  }
  for (auto left = reader.number<uint32_t>(); left > 0; --left) {
    const std::string name = reader.text(), of = reader.text();
    if (!file.variables.contains(of)) reader.fail(cat("names '", name, "' after a variable '", of, "' that it lacks"));
    file.aliases[name] = of;
  }
  if (!reader.at_end()) reader.fail("has bytes after its end");
  return file;
}

std::string print_ctranslate2(const CTranslate2File& file) {
  std::string out;
  put_number(out, kVersion);
  put_text(out, file.specification);
  put_number(out, file.revision);
  put_number(out, static_cast<uint32_t>(file.variables.size()));
  for (const auto& [name, variable] : file.variables) put_variable(out, name, variable);
  put_number(out, static_cast<uint32_t>(file.aliases.size()));
  for (const auto& [name, of] : file.aliases) {
    put_text(out, name);
    put_text(out, of);
  }
  return out;
}

}  // namespace fovea::models
