#include "fovea/data/png.h"

#include <png.h>

#include <array>
#include <cstring>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

constexpr size_t kSignature = 8;

// libpng reports an error by a call that must not return. The text is kept here, and longjmp leads back to run_png().
struct PngFailure {
  std::array<char, 200> text = {};
};

[[noreturn]] void fail_png(png_structp png, png_const_charp text) {
  auto* failure = static_cast<PngFailure*>(png_get_error_ptr(png));
  std::strncpy(failure->text.data(), text, failure->text.size() - 1);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp /*png*/, png_const_charp /*text*/) {}

// Runs calls of libpng; false if one failed. `calls` must have nothing with a destructor, which longjmp would skip.
template <class Calls>
bool run_png(png_structp png, const Calls& calls) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  calls();
  return true;
}

void read_png_bytes(png_structp png, png_bytep out, size_t size) {
  auto* rest = static_cast<std::string_view*>(png_get_io_ptr(png));
  if (size > rest->size()) png_error(png, "the file is truncated");
  std::memcpy(out, rest->data(), size);
  rest->remove_prefix(size);
}

class PngReader {
 public:
  PngReader(std::string_view bytes, const std::string& name)
      : rest_(bytes),
        name_(name),
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure_, fail_png, ignore_png_warning)) {
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) throw std::bad_alloc();
    png_set_read_fn(png_, &rest_, read_png_bytes);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // read() checks the size
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Image read() {
    require(run_png(png_, [&] { png_read_info(png_, info_); }));
    Image image;
    image.shape = checked_shape();
    require(run_png(png_, [&] { set_conversions(); }));
    const auto row_bytes = static_cast<size_t>(image.shape.width * image.shape.channels);
    if (png_get_rowbytes(png_, info_) != row_bytes) throw Error(cat(name_, ": a PNG of an unknown kind"));
    image.values.resize(static_cast<size_t>(image.shape.values()));
    std::vector<png_bytep> rows(static_cast<size_t>(image.shape.height));
    for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.values.data() + y * row_bytes;
    png_bytepp row_list = rows.data();
    require(run_png(png_, [&] {
      png_read_image(png_, row_list);
      png_read_end(png_, nullptr);
    }));
    return image;
  }

 private:
  void require(bool done) const {
    if (!done) throw Error(cat(name_, ": a damaged PNG: ", failure_.text.data()));
  }

  // Checks the shape before the pixels take memory.
  ImageShape checked_shape() const {
    const int color = png_get_color_type(png_, info_);
    if (png_get_bit_depth(png_, info_) == 16)
      throw Error(cat(name_, ": a PNG with 16 bits per value; expected 8; convert it"));
    if ((color & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png_, info_, PNG_INFO_tRNS) != 0)
      throw Error(cat(name_, ": a PNG with transparency; expected grey or RGB without it; convert the image"));
    const ImageShape shape = {.height = png_get_image_height(png_, info_),
                              .width = png_get_image_width(png_, info_),
                              .channels = (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1};
    if (shape.height > kMostImageValues / (shape.width * shape.channels))
      throw Error(cat(name_, ": an image of ", thousands(shape.width), " x ", thousands(shape.height),
                      " pixels; expected at most ", thousands(kMostImageValues), " values; make it smaller"));
    return shape;
  }

  void set_conversions() {
    const int color = png_get_color_type(png_, info_);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  std::string_view rest_;
  const std::string& name_;
  PngFailure failure_;
  png_structp png_;
  png_infop info_ = nullptr;
};

void write_png_bytes(png_structp png, png_bytep bytes, size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
}

void flush_nothing(png_structp /*png*/) {}

}  // namespace

bool begins_png(std::string_view bytes) {
  return bytes.size() >= kSignature && png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSignature) == 0;
}

Image decode_png(std::string_view bytes, const std::string& name) {
  if (!begins_png(bytes)) throw Error(cat(name, ": is not a PNG file"));
  return PngReader(bytes, name).read();
}

std::string encode_png(const Image& image) {
  std::string bytes;
  PngFailure failure;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &failure, fail_png, ignore_png_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) throw std::bad_alloc();
  const auto width = static_cast<png_uint_32>(image.shape.width), height = static_cast<png_uint_32>(image.shape.height);
  const size_t row_bytes = width * static_cast<size_t>(image.shape.channels);
  const bool done = run_png(png, [&] {
    png_set_write_fn(png, &bytes, write_png_bytes, flush_nothing);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png, info, width, height, 8, image.shape.channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (png_uint_32 y = 0; y < height; ++y) png_write_row(png, image.values.data() + y * row_bytes);
    png_write_end(png, nullptr);
  });
  png_destroy_write_struct(&png, &info);
  if (!done) throw Error(cat("cannot make a PNG of ", print(image.shape), ": ", failure.text.data()));
  return bytes;
}

}  // namespace fovea::data
