#include "fovea/serve/request_fields.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace fovea::serve::request_fields_test {
namespace {

Fields fields(const std::string& body, const std::string& type = "application/json", const std::string& query = {}) {
  Request request;
  request.body = body;
  request.query = query;
  request.headers = {{"content-type", type}};
  return Fields(request);
}

int status_of(const std::string& body, const std::string& type = "application/json") {
  try {
    fields(body, type);
  } catch (const HttpError& error) {
    return error.status();
  }
  return 200;
}

TEST(Fields, JsonFormAndQueryMeanTheSame) {
  constexpr const char* kForm = "application/x-www-form-urlencoded";
  for (const Fields& given : {fields("{\"q\": \"a b\", \"n\": 3, \"on\": true}"), fields("q=a+b&n=3&on=true", kForm),
                              fields("", "", "q=a%20b&n=3&on=1")}) {
    EXPECT_EQ(given.text("q"), "a b");
    EXPECT_EQ(given.whole("n", 0, 5), 3);
    EXPECT_EQ(given.truth("on"), true);
    EXPECT_FALSE(given.has("other"));
  }
  EXPECT_EQ(fields("text=a&text=b", kForm).texts("text"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields("{\"q\": \"body\"}", "application/json", "q=query").text("q"), "body");
}

TEST(Fields, OtherKindsAreRefusedByName) {
  const Fields given = fields("{\"q\": 3, \"n\": \"3\", \"on\": 1, \"list\": [\"a\", 2], \"big\": 9}");
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { (void)given.text("q"); }, [&] { (void)given.whole("n", 0, 5); },
                                          [&] { (void)given.truth("on"); }, [&] { (void)given.texts("list"); },
                                          [&] { (void)given.whole("big", 0, 5); }, [&] { (void)given.texts("none"); }})
    EXPECT_THROW(read(), HttpError);
  try {
    (void)given.text("q");
  } catch (const HttpError& error) {
    EXPECT_STREQ(error.what(), "q: got 3; expected a text");
    EXPECT_EQ(error.field(), "q");
    EXPECT_EQ(error.status(), 400);
  }
}

TEST(Fields, AreShownWithoutKeys) {
  EXPECT_EQ(fields("{\"q\": \"\u00e4\", \"api_key\": \"k\", \"auth_key\": [1]}").shown_without_keys(),
            "{\"q\":\"\u00e4\"}");
  EXPECT_EQ(fields("", "", "api_key=k&n=1").shown_without_keys(), "{\"n\":\"1\"}");
}

TEST(Fields, AListMayHaveToHaveATextInIt) {
  EXPECT_EQ(fields("{\"q\": \"a\"}").some_texts("q").size(), 1U);
  EXPECT_TRUE(fields("{\"q\": []}").texts("q").empty());
  EXPECT_THROW((void)fields("{\"q\": []}").some_texts("q"), HttpError);
}

TEST(Fields, AFormMayComeInParts) {
  const std::string body = "--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\n1\r\n--b--\r\n";
  EXPECT_EQ(fields(body, "multipart/form-data; boundary=b").whole("q", 0, 5), 1);
  EXPECT_EQ(status_of(body, "multipart/form-data"), 400);
}

TEST(Fields, BadBodiesAreRefused) {
  EXPECT_EQ(status_of("{\"q\": \"\xff\"}"), 400);
  EXPECT_EQ(status_of("{\"q\": "), 400);
  EXPECT_EQ(status_of("[1]"), 400);
  EXPECT_EQ(status_of(std::string(1'000'000, '[')), 400);
  EXPECT_EQ(status_of("{\"q\": \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}"), 200);
  EXPECT_EQ(status_of("q=x", "text/plain"), 415);
  EXPECT_EQ(status_of("{\"q\": \"x\"}", "application/x-www-form-urlencoded"), 400);
  EXPECT_EQ(status_of("q=%ff", "application/x-www-form-urlencoded"), 400);
  EXPECT_EQ(status_of("q=%f", "application/x-www-form-urlencoded"), 400);
}

}  // namespace
}  // namespace fovea::serve::request_fields_test
