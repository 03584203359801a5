#include "fovea/serve/request_head.h"

#include <algorithm>
#include <iterator>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/serve/html_form.h"

namespace fovea::serve {

namespace http = boost::beast::http;

Request head_of(const http::request_header<>& head) {
  Request request;
  request.method = std::string(head.method_string());
  std::string target(head.target());
  if (const size_t host = target.find("://"); !target.starts_with('/') && host != std::string::npos)
    target.erase(0, std::min(target.find('/', host + 3), target.size()));
  const size_t mark = target.find('?');
  request.path = percent_decoded(target.substr(0, mark)).value_or("");
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  for (const auto& field : head) request.headers.emplace_back(field.name_string(), field.value());
  return request;
}

std::string wrong_framing(const http::request_header<>& head) {
  const auto [begin, end] = head.equal_range(http::field::transfer_encoding);
  if (begin == end) return {};
  const std::string coding(begin->value());
  if (std::next(begin) == end && lower(coding) == "chunked" && head.version() >= 11) return {};
  return cat("Transfer-Encoding: got '", one_line(coding), "'; expected chunked, in HTTP/1.1, or a Content-Length");
}

std::string wrong_host(const http::request_header<>& head) {
  const auto count = head.count(http::field::host);
  if (count == 1 || (count == 0 && head.version() < 11)) return {};
  return cat("Host: got ", count == 0 ? "no such header" : "several", "; HTTP/1.1 asks for one");
}

}  // namespace fovea::serve
