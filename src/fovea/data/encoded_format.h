#pragma once
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace fovea::data {

// The last bytes of encoded files: pairs, and the units of language models. A change of the format, or of what encoding
// gives, changes the number.
inline constexpr std::string_view kEncodedFormat = "fovea-text-0001\n", kUnitFormat = "fovea-units-001\n";

// The checksum of a block: XXH3 of its tokens, with the XXH3 of its lengths as the seed.
inline uint64_t block_checksum(std::string_view lengths, std::string_view tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size(), XXH3_64bits(lengths.data(), lengths.size()));
}

}  // namespace fovea::data
