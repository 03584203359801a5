#include "fovea/analysis/report.h"
#include "fovea/analysis/report_page.h"
#include "fovea/analysis/svg.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::analysis {
namespace {

// JSON inside of a <script> element, where "</script" and "<!--" would end or change the element. These characters
// stand in strings of JSON only, which may write them as escapes.
std::string inside_script(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

// The template has {{NAME}} in the place of a part. Parts that were put in are not searched again.
std::string report_html(const ReportPage& page) {
  std::string weights;
  for (const auto& [id, text] : page.weights)
    weights += cat("<script type=\"text/plain\" id=\"", id, "\">", text, "</script>\n");
  std::string out;
  for (std::string_view rest = kReportTemplate; !rest.empty();) {
    const size_t begin = rest.find("{{"), end = rest.find("}}");
    out += rest.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    if (name == "TITLE") {
      out += escaped_xml(page.title);
    } else if (name == "STYLE") {
      out += kReportStyle;
    } else if (name == "DATA") {
      out += inside_script(page.data);
    } else if (name == "WEIGHTS") {
      out += weights;
    } else if (name == "SCRIPT") {
      out += kReportScript;
    } else {
      throw Error(cat("the template of reports has an unknown part '", name, "'"));
    }
    rest.remove_prefix(end + 2);
  }
  return out;
}

}  // namespace fovea::analysis
