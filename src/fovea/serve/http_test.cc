#include "fovea/serve/http.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace fovea::serve::http_test {
namespace {

TEST(Request, HeadersAreFoundInAnyCase) {
  Request request;
  request.headers = {{"Content-Type", "text/html"}, {"x-api-key", "first"}, {"X-API-Key", "second"}, {"Empty", ""}};
  EXPECT_EQ(request.header("content-type"), "text/html");
  EXPECT_EQ(request.header("CONTENT-TYPE"), "text/html");
  EXPECT_EQ(request.header("X-Api-Key"), "first") << "the first of several";
  EXPECT_EQ(request.header("Empty"), "");
  EXPECT_EQ(request.header("Content"), "") << "a whole name";
  EXPECT_EQ(Request().header("content-type"), "");
}

TEST(Reasons, AreThoseOfTheStandard) {
  EXPECT_EQ(reason_of(200), "OK");
  EXPECT_EQ(reason_of(404), "Not Found");
  EXPECT_EQ(reason_of(503), "Service Unavailable");
}

// The statuses that docs/serve.md promises, and those of the dialects.
TEST(Reasons, NoStatusLacksItsOwn) {
  std::set<std::string_view> reasons = {reason_of(299)};
  for (const int status : {200, 201, 204, 400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 456, 500, 501, 503, 504})
    EXPECT_TRUE(reasons.insert(reason_of(status)).second) << status;
}

}  // namespace
}  // namespace fovea::serve::http_test
