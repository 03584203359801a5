#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// A reader of Python's pickles that executes nothing: it builds plain values, and knows the few classes of which a file
// of torch.save() with tensors consists.
namespace fovea::models {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kTruth,
    kNumber,
    kReal,
    kText,
    kTuple,
    kList,
    kDict,     // items: key, value, key, value ...
    kClass,    // text: "torch FloatStorage"
    kStorage,  // text: its key; items: the class and the number of elements
    kTensor,   // items: storage, offset, sizes, strides
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // of a truth, too
  std::string text = {};
  std::vector<size_t> items = {};  // places of values
};

// All values of a pickle.
struct Pickle {
  std::vector<PickleValue> values;
  size_t root = 0;   // the place of the whole
  size_t bytes = 0;  // of the pickle

  const PickleValue& at(size_t place) const { return values.at(place); }
};

// Reads the pickle with which `bytes` begin. Throws an Error that begins with `source` for damage, for a class or a
// function that is not of tensors, and for what no file of tensors has.
Pickle parse_pickle(std::string_view bytes, const std::string& source);

}  // namespace fovea::models
