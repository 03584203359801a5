#include "fovea/serve/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::serve::api_keys_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ApiKeys keys_of(const std::string& text) {
  const TestFolder folder;
  write_file(folder / "keys", text);
  return ApiKeys(folder / "keys");
}

bool accepts(const ApiKeys& keys, const std::string& name, const std::string& value) {
  Request request;
  request.headers = {{"Host", "localhost"}, {name, value}};
  return keys.accept_headers(request);
}

TEST(ApiKeys, NoneAreAskedForWithoutAFile) {
  for (const ApiKeys& keys : {ApiKeys(), ApiKeys("")}) {
    EXPECT_FALSE(keys.are_asked_for());
    EXPECT_TRUE(keys.accept(""));
    EXPECT_TRUE(keys.accept_headers(Request()));
    EXPECT_TRUE(accepts(keys, "Authorization", "Bearer any"));
  }
}

TEST(ApiKeys, AreTheLinesOfTheFile) {
  const ApiKeys keys = keys_of("first\n\n  second \r\nthird key");
  EXPECT_TRUE(keys.are_asked_for());
  for (const char* key : {"first", "second", "third key"}) EXPECT_TRUE(keys.accept(key)) << key;
  for (const char* key : {"", " ", "firs", "first ", "First", "firstsecond", "third", "first\nsecond"})
    EXPECT_FALSE(keys.accept(key)) << key;
  EXPECT_FALSE(keys.accept(std::string("first\0", 6))) << "no prefix that ends in a zero";
}

TEST(ApiKeys, AFileWithoutKeysIsRefused) {
  for (const char* text : {"", "\n", "  \n\t\n"})
    EXPECT_THAT(message_of([&] { keys_of(text); }),
                AllOf(StartsWith("--api-key: '"), HasSubstr("expected a key per line")));
  EXPECT_THAT(message_of([] { ApiKeys("/no/such/keys"); }), HasSubstr("/no/such/keys"));
}

TEST(ApiKeys, EachDialectsHeaderHasOne) {
  const ApiKeys keys = keys_of("key\n");
  EXPECT_TRUE(accepts(keys, "Authorization", "Bearer key"));
  EXPECT_TRUE(accepts(keys, "Authorization", "DeepL-Auth-Key key"));
  EXPECT_TRUE(accepts(keys, "authorization", "bearer  key ")) << "names of schemes have no case";
  EXPECT_TRUE(accepts(keys, "x-api-key", "key"));
  EXPECT_FALSE(keys.accept_headers(Request()));
  for (const char* value : {"", "key", "Basic key", "Bearer", "Bearer ", "Bearerkey", "Bearer KEY", "Bearer key2",
                            "DeepL-Auth-Key", "DeepL-Auth-Key Bearer key"})
    EXPECT_FALSE(accepts(keys, "Authorization", value)) << value;
  for (const char* value : {"", "KEY", "Bearer key"}) EXPECT_FALSE(accepts(keys, "X-API-Key", value)) << value;
  EXPECT_FALSE(accepts(keys, "api_key", "key")) << "a field of the body, not a header";
}

TEST(ApiKeys, AnotherSchemeLeavesTheOtherHeader) {
  const ApiKeys keys = keys_of("key\n");
  Request request;
  request.headers = {{"Authorization", "Basic dXNlcjpwYXNz"}, {"X-API-Key", "key"}};  // of a proxy in front
  EXPECT_TRUE(keys.accept_headers(request));
}

TEST(ApiKeys, AnyHeaderMayHaveTheRightOne) {
  const ApiKeys keys = keys_of("key\n");
  const Header wrong = {"Authorization", "Bearer of-the-proxy"}, right = {"X-API-Key", "key"};
  Request request;
  for (const auto& headers : {std::vector{wrong, right},
                              {right, wrong},
                              {{"X-API-Key", "other"}, right},
                              {wrong, {"Authorization", "Bearer key"}}}) {
    request.headers = headers;
    EXPECT_TRUE(keys.accept_headers(request));
  }
  request.headers = {wrong, {"X-API-Key", "of-the-proxy"}};
  EXPECT_FALSE(keys.accept_headers(request));
}

TEST(ApiKeys, AreMaskedInText) {
  const ApiKeys keys = keys_of("key\nkey2\n");
  EXPECT_EQ(keys.masked("a key, a key2 and a monkey"), "a ***, a ***2 and a mon***");
  EXPECT_EQ(ApiKeys().masked("a key"), "a key");
}

}  // namespace
}  // namespace fovea::serve::api_keys_test
