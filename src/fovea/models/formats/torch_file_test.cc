#include "fovea/models/formats/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::models::torch_file_test {
namespace {

using testing::HasSubstr;

std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
  return text;
}
std::string word(const std::string& text) { return cat("X", little(text.size(), 4), text); }
std::string number(int64_t value) { return cat("K", little(static_cast<uint64_t>(value), 1)); }

// A dictionary with one tensor over a storage of six elements, as torch.save() writes it.
struct Made {
  std::string type = "FloatStorage", call = "torch._utils\n_rebuild_tensor_v2";
  int64_t elements = 6, offset = 0, rows = 2, columns = 3, step = 3;
};
std::string pickle_of(const Made& made) {
  const std::string storage =
      cat("(", word("storage"), "ctorch\n", made.type, "\n", word("0"), word("cpu"), number(made.elements), "tQ");
  const std::string arguments = cat("(", storage, number(made.offset), number(made.rows), number(made.columns), "\x86",
                                    number(made.step), number(1), "\x86\x89", "ccollections\nOrderedDict\n)Rt");
  return cat("\x80\x02}", word("a"), "c", made.call, "\n", arguments, "Rs.");
}

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const std::string sizes = cat(little(0, 4), little(data.size(), 4), little(data.size(), 4), little(name.size(), 2));
    directory +=
        cat("PK\1\2", little(0, 6), little(0, 2), little(0, 4), sizes, little(0, 12), little(file.size(), 4), name);
    file += cat("PK\3\4", little(0, 4), little(0, 2), little(0, 4), sizes, little(0, 2), name, data);
  }
  const size_t count = members.size();
  return cat(file, directory, "PK\5\6", little(0, 4), little(count, 2), little(count, 2), little(directory.size(), 4),
             little(file.size(), 4), little(0, 2));
}

const std::string kData(24, 'x');

std::string file_of(const Made& made) {
  return zip_of({{"archive/data.pkl", pickle_of(made)}, {"archive/byteorder", "little"}, {"archive/data/0", kData}});
}
// The form of torch before 1.6.
std::string old_file_of(const Made& made) {
  const std::string head = "\x80\x02", mark("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  return cat(head, mark, ".", head, "M", little(1001, 2), ".", head, "}", word("little_endian"), "\x88s.",
             pickle_of(made), head, "]", word("0"), "a.", little(6, 8), kData);
}

std::string problem(const std::string& file) {
  return message_of([&] { parse_torch_file(file, "w.bin"); });
}

TEST(TorchFile, HasTheTensorsOfBothForms) {
  for (const std::string& file : {file_of({}), old_file_of({})}) {
    const std::vector<TorchTensor> tensors = parse_torch_file(file, "w.bin");
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].name, "a");
    EXPECT_EQ(tensors[0].type, "Float");
    EXPECT_EQ(tensors[0].storage, kData);
    EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(tensors[0].strides, (std::vector<int64_t>{3, 1}));
  }
}

TEST(TorchFile, RefusesWhatDoesNotFit) {
  EXPECT_THAT(problem(file_of({.call = "posix\nsystem"})),
              HasSubstr("names 'posix.system', which is not a class of tensors"));
  EXPECT_THAT(problem(file_of({.type = "load"})), HasSubstr("names 'torch.load'"));
  EXPECT_THAT(problem(file_of({.elements = 7})), HasSubstr("expected 7 elements"));
  EXPECT_THAT(problem(file_of({.type = "DoubleStorage"})), HasSubstr("has a storage of 24 bytes"));
  for (const Made& made : {Made{.offset = 1}, {.rows = 3}, {.columns = 7}, {.step = 4}, {.rows = 100, .step = 0}})
    EXPECT_THAT(problem(file_of(made)), HasSubstr("'a' does not lie within its storage"));
  EXPECT_THAT(problem(zip_of({{"archive/data.pkl", pickle_of({})}})),
              HasSubstr("has the storage '0', which is missing"));
  EXPECT_THAT(problem(zip_of({{"x", "y"}})), HasSubstr("has no data.pkl"));
  EXPECT_THAT(problem(zip_of({{"a/data.pkl", pickle_of({})}, {"a/byteorder", "big"}})), HasSubstr("byte order 'big'"));
  EXPECT_THAT(problem(zip_of({{"a/data.pkl", "\x80\x02]."}})), HasSubstr("is not a dictionary"));
  EXPECT_THAT(problem(zip_of({{"a/data.pkl", "\x80\x02}" + word("a") + number(1) + "s."}})),
              HasSubstr("'a' is not a tensor"));
  EXPECT_THAT(problem(zip_of({{"a/data.pkl", "\x80\x02i"}})), HasSubstr("the instruction 105"));
}

// Any byte may be another one: a value or an Error of one line comes out, and storages stay within the file.
TEST(TorchFile, ReadsChangedBytes) {
  for (const std::string& whole : {file_of({}), old_file_of({})}) {
    for (size_t at = 0; at < whole.size(); ++at) {
      EXPECT_THAT(problem(whole.substr(0, at)), HasSubstr("w.bin")) << at;
      for (const char change : {'\x01', '\x80', '\xff', 'R', 'Q', '.'}) {
        std::string file = whole;
        file[at] = change;
        try {
          for (const TorchTensor& tensor : parse_torch_file(file, "w.bin"))
            EXPECT_LE(tensor.storage.data() + tensor.storage.size(), file.data() + file.size());
        } catch (const Error& error) {
          EXPECT_EQ(std::string_view(error.what()).find_first_of("\r\n"), std::string_view::npos);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::models::torch_file_test
