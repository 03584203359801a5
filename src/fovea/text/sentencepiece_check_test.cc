#include "fovea/text/sentencepiece_check.h"

#include <gmock/gmock.h>

#include <cstring>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/text/vocab.h"

namespace fovea::text::sentencepiece_check_test {
namespace {

using testing::HasSubstr;

constexpr int kNormalizer = 3, kDenormalizer = 5;

// A field of a protobuf message, numbered 1 to 15, with bytes of any length.
std::string message_field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t size = bytes.size();
  for (; size > 0x7f; size >>= 7) out.push_back(static_cast<char>(0x80 | (size & 0x7f)));
  out.push_back(static_cast<char>(size));
  return out + bytes;
}

std::string charsmap_of(const std::vector<uint32_t>& units, const std::string& strings) {
  const auto size = static_cast<uint32_t>(4 * units.size());
  std::string out(4 + size, '\0');
  std::memcpy(out.data(), &size, 4);
  std::memcpy(out.data() + 4, units.data(), size);
  return out + strings;
}

class SentencepieceCheckTest : public testing::Test {
 protected:
  SentencepieceCheckTest() {
    write_file(folder_ / "a.txt", "aba abba bab\nbaba abab\n");
    train_vocab({.inputs = {folder_ / "a.txt"},
                 .output = folder_ / "v.spm",
                 .size = 6,
                 .type = "bpe",
                 .normalization = "nmt_nfkc"});  // whose map of characters is most of the model
    model_ = read_file(folder_ / "v.spm");
  }
  // The model with a map of its own; of a field that comes twice the library takes the last.
  std::string with_map(int spec, const std::string& map) const {
    return model_ + message_field(spec, message_field(2, map));
  }

  TestFolder folder_;
  std::string model_;
};

// "a" becomes the string at `value`: unit 0 leads by its offset to a block in which the unit for "a" has its label and
// a leaf; the value is where that unit's offset leads.
std::vector<uint32_t> trie_of_a(uint32_t value) {
  constexpr uint32_t kBlock = 1, kState = kBlock ^ 'a', kToLeaf = 3, kHasLeaf = 1U << 8, kIsLeaf = 1U << 31;
  std::vector<uint32_t> units(256);
  units[0] = kBlock << 10;
  units[kState] = kToLeaf << 10 | kHasLeaf | 'a';
  units[kState ^ kToLeaf] = kIsLeaf | value;
  return units;
}
constexpr uint32_t kStateOfA = 1 ^ 'a';

TEST_F(SentencepieceCheckTest, SoundMapsAreTakenAndUsed) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(has_sound_charsmaps(model_));
  EXPECT_TRUE(has_sound_charsmaps(with_map(kNormalizer, "")));
  const std::string mapped = with_map(kNormalizer, charsmap_of(trie_of_a(2), "x\0b\0"s));
  EXPECT_EQ(Vocab::from_bytes(mapped, "v").pieces("aa"), Vocab::from_bytes(model_, "v").pieces("bb"));
}

TEST_F(SentencepieceCheckTest, MapsThatLeadOutOfThemselvesAreRefused) {
  const std::string strings("x\0b\0", 4);
  const std::string good = charsmap_of(trie_of_a(2), strings);
  std::vector<uint32_t> far = trie_of_a(2);
  far[kStateOfA] |= 1U << 9 | 1U << 20;  // the offset counts in blocks
  std::vector<uint32_t> loop = trie_of_a(2);
  loop[kStateOfA] = (kStateOfA ^ 1U) << 10 | 1U << 8 | 'a';  // back into its own block, a match at each turn
  const std::vector<std::pair<const char*, std::string>> bad = {
      {"no size", good.substr(0, 3)},
      {"no trie", std::string(4, '\0') + strings},
      {"half a unit", charsmap_of(trie_of_a(2), strings).replace(0, 1, "\2")},
      {"trie cut short", good.substr(0, 800)},
      {"no strings", good.substr(0, 4 + 1024)},
      {"string without its end", good.substr(0, good.size() - 1)},
      {"block cut short", charsmap_of({1U << 10, 0, 0, 0}, strings)},
      {"far offset", charsmap_of(far, strings)},
      {"far value", charsmap_of(trie_of_a(4), strings)},
      {"more matches than the library holds", charsmap_of(loop, strings)},
  };
  for (const auto& [what, map] : bad) {
    for (const int spec : {kNormalizer, kDenormalizer}) {
      const std::string model = with_map(spec, map);
      EXPECT_FALSE(has_sound_charsmaps(model)) << what;
      EXPECT_THAT(message_of([&] { Vocab::from_bytes(model, "bad.spm"); }),
                  HasSubstr("'bad.spm' is not a SentencePiece model (damaged or cut short)"))
          << what;
    }
  }
}

// A map in which "a", "aa", "aaa" ... match, up to `length` letters: a block for each, which a unit of the one before
// leads to.
std::vector<uint32_t> chain_of_a(uint32_t length) {
  constexpr uint32_t kHasLeaf = 1U << 8, kIsLeaf = 1U << 31;
  const auto block = [](uint32_t i) { return 256 * i + 1; };
  std::vector<uint32_t> units(static_cast<size_t>(256) * (length + 2));
  units[0] = block(0) << 10;
  for (uint32_t i = 0; i < length; ++i) {
    const uint32_t state = block(i) ^ 'a';
    units[state] = (state ^ block(i + 1)) << 10 | kHasLeaf | 'a';
    units[block(i + 1)] = kIsLeaf;
  }
  return units;
}

TEST_F(SentencepieceCheckTest, MapsMatchAsOftenAsTheLibraryHolds) {
  constexpr uint32_t kMost = 32;
  const std::string strings("x\0", 2);
  const std::string fits = with_map(kNormalizer, charsmap_of(chain_of_a(kMost), strings));
  EXPECT_TRUE(has_sound_charsmaps(fits));
  EXPECT_FALSE(has_sound_charsmaps(with_map(kNormalizer, charsmap_of(chain_of_a(kMost + 1), strings))));
  EXPECT_NO_THROW((void)Vocab::from_bytes(fits, "v").encode(std::string(kMost + 8, 'a')));
}

// "a", "aa", "aaa" ... as pieces of the user's own, which the library looks up all at once.
TEST_F(SentencepieceCheckTest, UsersPiecesThatBeginWithTooManyOthersAreRefused) {
  constexpr int kPieces = 1, kMost = 64;
  const std::string users_own = "\x18\x04";
  std::string model = model_;
  const auto add = [&](int size) {
    model += message_field(kPieces, message_field(1, std::string(size, 'z')) + users_own);
  };
  for (int size = kMost; size > 0; --size) add(size);
  model += message_field(kPieces, message_field(1, "zy") + users_own);
  EXPECT_EQ(Vocab::from_bytes(model, "v").pieces(std::string(kMost, 'z')).back(), std::string(kMost, 'z'));
  add(kMost + 1);
  EXPECT_FALSE(has_sound_user_pieces(model));
  EXPECT_THAT(message_of([&] { Vocab::from_bytes(model, "bad.spm"); }),
              HasSubstr("'bad.spm' is not a SentencePiece model (damaged or cut short)"));
}

TEST_F(SentencepieceCheckTest, WhatIsNoMessageIsRefused) {
  EXPECT_FALSE(has_sound_charsmaps(model_ + "\x1a"));          // a length is missing
  EXPECT_FALSE(has_sound_charsmaps(model_ + "\x1a\x05xyz"));   // longer than what is left
  EXPECT_FALSE(has_sound_charsmaps(model_ + "\x1b"));          // a group
  EXPECT_FALSE(has_sound_charsmaps(std::string(20, '\xff')));  // a number without an end
}

// Characters of all scripts, so that damage anywhere in a map is met.
std::string many_characters() {
  std::string text;
  for (uint32_t c = 0x80; c < 0x800; ++c)
    text += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
  for (uint32_t c = 0x800; c < 0x10000; c += 7)
    if (c < 0xd800 || c > 0xdfff)
      text += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
               static_cast<char>(0x80 | (c & 0x3f))};
  return text;
}

TEST_F(SentencepieceCheckTest, NoDamageLeadsOutOfMemory) {
  const std::string text = many_characters();
  int64_t refused = 0, taken = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    std::string damaged = model_;
    const uint64_t size = 1 + rng.below(seed % 2 == 0 ? 4 : 4096), at = 1 + rng.below(damaged.size() - size - 1);
    for (uint64_t i = at; i < at + size; ++i) damaged[i] = seed % 3 == 0 ? '\xff' : static_cast<char>(rng.below(256));
    try {
      const Vocab vocab = Vocab::from_bytes(damaged, "damaged.spm");
      const std::vector<int64_t> ids = vocab.encode(text);
      vocab.decode(ids);
      ++taken;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 15);
  EXPECT_GT(taken, 15);
}

}  // namespace
}  // namespace fovea::text::sentencepiece_check_test
