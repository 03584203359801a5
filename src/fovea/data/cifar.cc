#include "fovea/data/cifar.h"

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

constexpr size_t kPlane = 32 * 32, kRecord = 1 + 3 * kPlane;

void check_label(unsigned char label, int64_t record, const std::string& name) {
  if (label <= 9) return;
  if (record == 0)
    throw Error(cat(name,
                    ": begins with neither a PNG, an .npy array nor a CIFAR-10 label (0 to 9): its first byte is ",
                    int{label}, "; expected PNG, .npy or the binary version of CIFAR-10"));
  throw Error(cat(name, ", record ", thousands(record + 1), ": the label is ", int{label},
                  "; expected 0 to 9; this is not a binary batch of CIFAR-10, or it is damaged"));
}

void append_record(const std::string& record, std::vector<uint8_t>& values) {
  for (size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (size_t channel = 0; channel < 3; ++channel)
      values.push_back(static_cast<uint8_t>(record[1 + channel * kPlane + pixel]));
  }
}

}  // namespace

std::vector<uint8_t> read_cifar(LineReader& reader, std::string begin, const std::string& name) {
  std::vector<uint8_t> values;
  std::string record = std::move(begin);
  for (int64_t index = 0;; ++index) {
    throw_if_interrupted("reading images");
    while (record.size() < kRecord && reader.read(record, kRecord - record.size()) > 0) continue;
    if (record.empty() && index == 0) throw Error(cat(name, ": is empty; expected images"));
    if (record.empty()) return values;
    check_label(static_cast<unsigned char>(record.front()), index, name);
    if (record.size() < kRecord)
      throw Error(cat(name, ": ends after ", thousands(static_cast<int64_t>(record.size())), " bytes of record ",
                      thousands(index + 1), "; expected a multiple of 3,073 bytes, the size of a CIFAR-10 record; the ",
                      "file is truncated, or of another kind"));
    append_record(record, values);
    record.clear();
  }
}

}  // namespace fovea::data
