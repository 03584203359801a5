#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::data {

// A text as units, wherever they are.
class UnitSource {
 public:
  virtual ~UnitSource() = default;
  virtual int64_t size() const = 0;  // units
  // Appends the units [begin, end).
  virtual void read(int64_t begin, int64_t end, std::vector<int64_t>& ids) const = 0;
  // The places in [begin, end) where documents begin, ascending. A document begins at place 0.
  virtual std::vector<int64_t> documents_in(int64_t begin, int64_t end) const = 0;
  // XXH3 of all units and of the places of documents: the same for the same text, wherever it is.
  virtual std::string fingerprint() const = 0;
};

// Takes the units of a text one after the other.
class UnitSink {
 public:
  virtual ~UnitSink() = default;
  // A document begins with the next unit, which comes; also before the first.
  virtual void begin_document() = 0;
  virtual void add(std::span<const int32_t> ids) = 0;
  virtual void expect(int64_t /*units*/) {}  // about as many in all
};

}  // namespace fovea::data
