#include "fovea/data/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

using std::string_view_literals::operator""sv;
constexpr std::string_view kNpyMagic = "\x93NUMPY"sv;
const std::vector<std::string> kArrayTypes = {"<f4", "<f2", "|i1", "<i1", "|u1", "<i4", "<i8"};

// The header's dictionary, as numpy writes it: {'descr': '|u1', 'fortran_order': False, 'shape': (2, 32, 32, 3), }
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const std::string& name) : rest_(text), name_(name) { read(); }

  std::optional<std::string> type;
  std::optional<bool> is_fortran;
  std::optional<std::vector<int64_t>> shape;

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(cat(name_, ": a damaged .npy header: expected ", expected, " before '", rest_.substr(0, 20), "'"));
  }
  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(cat("'", c, "'"));
  }
  void skip_blanks() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string_view read_string() {
    skip_blanks();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') fail("a name in quotes");
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail("the end of a name");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  int64_t read_number() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) fail("a whole number");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  void read_type() {
    skip_blanks();
    if (rest_.starts_with('['))
      throw Error(cat(name_, ": an array of records; expected an array of numbers; save one array"));
    type = read_string();
  }
  void read_order() {
    if (take_word("True")) {
      is_fortran = true;
    } else if (take_word("False")) {
      is_fortran = false;
    } else {
      fail("True or False");
    }
  }
  void read_shape() {
    need('(');
    shape.emplace();
    while (!take(')')) {
      if (shape->size() == 32) fail("at most 32 dimensions");  // numpy's limit
      shape->push_back(read_number());
      if (take(',')) continue;
      need(')');
      return;
    }
  }
  void read() {
    need('{');
    while (!take('}')) {
      const std::string_view key = read_string();
      need(':');
      if (key == "descr" && !type) {
        read_type();
      } else if (key == "fortran_order" && !is_fortran) {
        read_order();
      } else if (key == "shape" && !shape) {
        read_shape();
      } else {
        throw Error(cat(name_, ": a damaged .npy header: got the key '", key.substr(0, 40), "'"));
      }
      if (take(',')) continue;
      need('}');
      break;
    }
    if (!type || !is_fortran || !shape)
      throw Error(cat(name_, ": a damaged .npy header: expected the keys descr, fortran_order and shape"));
  }

  std::string_view rest_;
  const std::string& name_;
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(cat(size));
  return cat("[", join(sizes, ", "), "]");
}

// The little-endian number in these bytes.
size_t little_endian(std::string_view bytes) {
  size_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

// Returns the dictionary's text within the header.
std::string_view dictionary_text(std::string_view begin, const std::string& name) {
  constexpr size_t kVersionEnd = 8;
  if (begin.size() < kVersionEnd) throw Error(cat(name, ": a damaged .npy header: the file is truncated"));
  const int version = static_cast<unsigned char>(begin[6]);
  if (version < 1 || version > 3) throw Error(cat(name, ": an .npy file of version ", version, "; expected 1, 2 or 3"));
  const size_t length_bytes = version == 1 ? 2 : 4, start = kVersionEnd + length_bytes;
  if (begin.size() < start) throw Error(cat(name, ": a damaged .npy header: the file is truncated"));
  const size_t length = little_endian(begin.substr(kVersionEnd, length_bytes));
  if (length > kLongestNpyHeader - start)
    throw Error(
        cat(name, ": a damaged .npy header: it says that it has ", thousands(static_cast<int64_t>(length)), " bytes"));
  if (length > begin.size() - start) throw Error(cat(name, ": a damaged .npy header: the file is truncated"));
  return begin.substr(start, length);
}

NpyDictionary read_dictionary(std::string_view begin, const std::string& name) {
  if (!begins_npy(begin)) throw Error(cat(name, ": is not an .npy file"));
  return {dictionary_text(begin, name), name};
}

// `wanted` is a type as numpy writes it, and what is said of it in an error.
void check_type(const NpyDictionary& header, std::string_view wanted, std::string_view description,
                const std::string& name) {
  const std::string& type = *header.type;
  if (type != wanted && type != wanted.substr(1))
    throw Error(
        cat(name, ": an array of type '", type.substr(0, 40), "'; expected '", wanted, "', which is ", description));
  if (*header.is_fortran)
    throw Error(cat(name, ": an array in Fortran's order; expected C order; save numpy.ascontiguousarray(array)"));
}

size_t data_start_of(std::string_view begin, const std::string& name) {
  const std::string_view text = dictionary_text(begin, name);
  return static_cast<size_t>(text.data() - begin.data()) + text.size();
}

// Whether the file's values are those of its shape. One item of the array has `item_bytes`.
void check_size(const NpyDictionary& header, size_t item_bytes, size_t data_bytes, const std::string& name) {
  const auto items = static_cast<size_t>(header.shape->front());
  if (data_bytes % item_bytes == 0 && data_bytes / item_bytes == items) return;
  throw Error(cat(name, ": the header says ", shape_text(*header.shape), ", but the file has ",
                  thousands(static_cast<int64_t>(data_bytes)), " bytes of values; it is truncated or damaged"));
}

ImageShape check_shape(const std::vector<int64_t>& shape, const std::string& name) {
  const bool is_images = shape.size() == 4 && shape[0] > 0 && shape[1] > 0 && shape[2] > 0;
  if (!is_images || (shape[3] != 1 && shape[3] != 3))
    throw Error(cat(name, ": an array of the shape ", shape_text(shape),
                    "; expected [images, height, width, channels] with 1 or 3 channels"));
  const bool is_small = shape[1] <= kMostImageValues && shape[2] <= kMostImageValues / shape[3] / shape[1];
  if (!is_small)
    throw Error(cat(name, ": images of ", thousands(shape[2]), " x ", thousands(shape[1]), " pixels; expected at most ",
                    thousands(kMostImageValues), " values; make them smaller"));
  return {shape[1], shape[2], shape[3]};
}

}  // namespace

bool begins_npy(std::string_view bytes) { return bytes.starts_with(kNpyMagic); }

NpyHeader parse_npy_header(std::string_view begin, size_t size, const std::string& name) {
  const NpyDictionary dictionary = read_dictionary(begin, name);
  check_type(dictionary, "|u1", "uint8 with values from 0 to 255; convert it with array.astype('uint8')", name);
  NpyHeader header;
  header.shape = check_shape(*dictionary.shape, name);
  header.images = dictionary.shape->front();
  header.data_start = data_start_of(begin, name);
  check_size(dictionary, static_cast<size_t>(header.shape.values()), size - header.data_start, name);
  return header;
}

NpyFeatureHeader parse_npy_features(std::string_view begin, size_t size, const std::string& name) {
  constexpr int64_t kMost = 1 << 24;  // numbers of one item
  const NpyDictionary dictionary = read_dictionary(begin, name);
  check_type(dictionary, "<f4", "float32; convert it with array.astype('float32')", name);
  const std::vector<int64_t>& shape = *dictionary.shape;
  const bool is_possible = shape.size() == 3 && shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[1] <= kMost &&
                           shape[2] <= kMost / shape[1];
  if (!is_possible)
    throw Error(cat(name, ": an array of the shape ", shape_text(shape),
                    "; expected [images, regions, width], with at ", "most ", thousands(kMost),
                    " numbers of an image"));
  const NpyFeatureHeader header = {shape[0], shape[1], shape[2], data_start_of(begin, name)};
  check_size(dictionary, static_cast<size_t>(header.rows * header.width) * sizeof(float), size - header.data_start,
             name);
  return header;
}

NpyArray parse_npy_array(std::string_view begin, size_t size, const std::string& name) {
  const NpyDictionary dictionary = read_dictionary(begin, name);
  const std::string& type = *dictionary.type;
  if (std::ranges::find(kArrayTypes, type) == kArrayTypes.end())
    throw Error(cat(name, ": an array of type '", type.substr(0, 40), "'; expected one of ", join(kArrayTypes, ", ")));
  check_type(dictionary, type, "its own type", name);
  const NpyArray array = {type, *dictionary.shape, data_start_of(begin, name)};
  const size_t data_bytes = size - array.data_start;
  size_t bytes = static_cast<size_t>(type.back() - '0');
  bool fits = true;
  for (const int64_t extent : array.shape) {
    fits = fits && (extent == 0 || bytes <= data_bytes / static_cast<size_t>(extent));
    if (fits) bytes *= static_cast<size_t>(extent);
  }
  if (!fits || bytes != data_bytes)
    throw Error(cat(name, ": the header says ", shape_text(array.shape), ", but the file has ",
                    thousands(static_cast<int64_t>(data_bytes)), " bytes of values; it is truncated or damaged"));
  return array;
}

std::string npy_type(std::string_view begin, const std::string& name) { return *read_dictionary(begin, name).type; }

}  // namespace fovea::data
