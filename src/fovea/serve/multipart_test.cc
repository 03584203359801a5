#include "fovea/serve/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/base/test_message.h"

namespace fovea::serve::multipart_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const std::string kType = "multipart/form-data; boundary=x";

std::string part(const std::string& headers, const std::string& value, const std::string& boundary = "x") {
  return "--" + boundary + "\r\n" + headers + "\r\n\r\n" + value + "\r\n";
}
std::string field(const std::string& name, const std::string& value) {
  return part("Content-Disposition: form-data; name=\"" + name + "\"", value);
}

TEST(Multipart, HasItsFieldsInOrder) {
  EXPECT_THAT(
      parse_multipart(field("q", "one\r\ntwo --x") + field("source", "") + field("q", "\r\n") + "--x--\r\n", kType),
      ElementsAre(Pair("q", "one\r\ntwo --x"), Pair("source", ""), Pair("q", "\r\n")));
  EXPECT_THAT(parse_multipart("--x--", kType), IsEmpty());
  // A preamble, blanks behind the boundary, an epilogue.
  EXPECT_THAT(parse_multipart("hello\r\n--x \t\r\nContent-Disposition: form-data; name=q\r\n\r\nv\r\n--x--bye", kType),
              ElementsAre(Pair("q", "v")));
}

TEST(Multipart, HeadersHaveManyForms) {
  const std::string headers =
      "content-type: text/plain\r\nCONTENT-DISPOSITION:form-data ;x; a = b ;Name = \"a\\\"; b\"";
  const std::string type = "Multipart/Form-Data; charset=utf-8; Boundary=\"a b\"";
  EXPECT_THAT(parse_multipart(part(headers, "v", "a b") + "--a b--", type), ElementsAre(Pair("a\"; b", "v")));
}

std::string message(const std::string& body, const std::string& type = kType) {
  return message_of([&] { (void)parse_multipart(body, type); });
}

TEST(Multipart, OtherBodiesAreRefused) {
  EXPECT_THAT(message(field("q", "v")), HasSubstr("ends before its last boundary"));
  EXPECT_THAT(message("q=v"), HasSubstr("does not have the boundary"));
  EXPECT_THAT(message(field("q", "v") + "--x--", "multipart/form-data"), HasSubstr("expected a boundary"));
  EXPECT_THAT(message(field("q", "v") + "--x--", "multipart/form-data; boundary="), HasSubstr("expected a boundary"));
  EXPECT_THAT(message("--x\r\n\r\nv\r\n--x--"), HasSubstr("a part has no "));
  EXPECT_THAT(message("--x\r\nv\r\n--x--"), HasSubstr("a part has no headers"));
  EXPECT_THAT(message(part("Content-Disposition: form-data", "v") + "--x--"), HasSubstr("a part has no name"));
  EXPECT_THAT(message(part("Content-Disposition: form-data; name=f; filename=\"a.txt\"", "v") + "--x--"),
              HasSubstr("'f' is a file"));
  EXPECT_THAT(
      message(part("Content-Disposition: form-data; name=f\r\nContent-Transfer-Encoding: base64", "v") + "--x--"),
      HasSubstr("'base64'"));
  EXPECT_THAT(message(field("q", "\xff") + "--x--"), HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace fovea::serve::multipart_test
