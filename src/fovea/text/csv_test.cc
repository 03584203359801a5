#include "fovea/text/csv.h"

#include <gtest/gtest.h>

#include "fovea/base/test_message.h"

namespace fovea::text::csv_test {
namespace {

using Fields = std::vector<std::string>;

std::vector<Fields> fields(std::string_view text) {
  std::vector<Fields> all;
  for (const CsvRecord& record : parse_csv(text, "t.csv")) all.push_back(record.fields);
  return all;
}

TEST(Csv, ReadsPlainAndQuotedFields) {
  EXPECT_EQ(fields("a,b\nc d, e\r\n"), (std::vector<Fields>{{"a", "b"}, {"c d", " e"}}));
  EXPECT_EQ(fields("\"a, b\",\"say \"\"so\"\"\"\n\"\",x"), (std::vector<Fields>{{"a, b", "say \"so\""}, {"", "x"}}));
  EXPECT_EQ(fields("5\" pipe,\"two\nlines\"\n"), (std::vector<Fields>{{"5\" pipe", "two\nlines"}}));
  EXPECT_EQ(fields("\xef\xbb\xbf\n\r\na,\n,\n"), (std::vector<Fields>{{"a", ""}, {"", ""}}));
  EXPECT_EQ(fields(""), std::vector<Fields>());
}

TEST(Csv, RecordsKnowTheirFirstLine) {
  const std::vector<CsvRecord> records = parse_csv("a\n\n\"b\n\nc\",d\r\ne", "t.csv");
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[1].line, 3);
  EXPECT_EQ(records[2].line, 6);
}

TEST(Csv, ABadLineIsNamed) {
  const auto message = [](std::string_view text) { return message_of([&] { parse_csv(text, "t.csv"); }); };
  EXPECT_EQ(message("a,b\n\"c,d\n"), "t.csv, line 2: a quote has no end; expected \"...\", with \"\" for a quote");
  EXPECT_EQ(message("\"a\"b,c\n"),
            "t.csv, line 1: got more behind a closing quote; expected a comma or a line end, or \"\" for a quote");
  EXPECT_NE(message(std::string_view("a\nb\0", 4)).find("t.csv, line 2: "), std::string::npos);
}

}  // namespace
}  // namespace fovea::text::csv_test
