#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/serve/http.h"
#include "fovea/text/json_values.h"

// The fields of a request, whichever way the client sends them.
namespace fovea::serve {

using Json = text::Json;

// A refusal with its HTTP status. `field` names the field that is wrong; "" if it is another mistake.
class HttpError : public Error {
 public:
  HttpError(int status, const std::string& message, std::string field = {})
      : Error(message), status_(status), field_(std::move(field)) {}
  int status() const { return status_; }
  const std::string& field() const { return field_; }

 private:
  int status_;
  std::string field_;
};

// A refusal of status 503: what was asked for may work later, in about that many seconds.
class BusyError : public HttpError {
 public:
  BusyError(const std::string& message, double seconds) : HttpError(503, message), seconds_(seconds) {}
  double seconds() const { return seconds_; }

 private:
  double seconds_;
};

// A text of a request for a message: its first 60 bytes, on one line.
std::string shown_text(std::string_view text);

// Parses JSON whose values lie at most 32 deep. Throws an HttpError for other text.
Json parse_json(const std::string& text);

// Named values out of a JSON object, a form or a query. Each function throws an HttpError of status 400 that names the
// field for a value of another kind. A missing field and null are nothing.
class Fields {
 public:
  // Reads the body, then those fields of the query that the body does not have.
  explicit Fields(const Request& request);
  explicit Fields(Json object) : object_(std::move(object)) {}

  bool has(const std::string& name) const { return find(name) != nullptr; }
  bool is_list(const std::string& name) const;  // of texts or anything else
  // The fields as JSON, without a client's key.
  std::string shown_without_keys() const;
  const Json* find(const std::string& name) const { return text::find_json(object_, name); }
  std::optional<std::string> text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;       // of one text or a list; throws if it is missing
  std::vector<std::string> some_texts(const std::string& name) const;  // the same; throws if it is empty, too
  std::optional<bool> truth(const std::string& name) const;
  std::optional<int64_t> whole(const std::string& name, int64_t least, int64_t most) const;
  std::optional<double> number(const std::string& name, double least, double most) const;
  // Throws unless the field is missing or has one of the values.
  std::string choice(const std::string& name, const std::vector<std::string>& known, const std::string& usual) const;
  // Throws a 400 with `advice` if the field is there and is not false, "" or an empty list.
  void refuse(const std::string& name, const std::string& advice) const;

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& expected) const;
  Json object_ = Json::object();
  bool is_form_ = false;  // numbers and truth values are text
};

}  // namespace fovea::serve
