#include <zlib.h>

#include "fovea/analysis/alignment.h"
#include "fovea/analysis/run_curves.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/captions.h"
#include "fovea/data/columns.h"
#include "fovea/data/npz.h"
#include "fovea/data/token_text.h"
#include "fovea/models/formats/tensor_index.h"
#include "fovea/models/tagging/labels.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/safetensors_header.h"
#include "fovea/spec/config_yaml.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/train_config.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/units.h"
#include "fovea/text/vocab_count.h"
#include "growth.h"

// Files of corpora, of models and of runs.
namespace fovea::growth {
namespace {

Make around(std::string begin, std::string unit, std::string end) {
  return [=](size_t bytes) { return begin + repeated(unit, bytes) + end; };
}
Make numbered_around(std::string begin, std::string unit, std::string end) {
  return [=](size_t bytes) { return begin + numbered(unit, bytes) + end; };
}

std::string gzip(const std::string& text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void read_all_lines(const std::string& path) {
  (void)read_lines(path);
  (void)read_unpacked(path);
}

}  // namespace

std::vector<Case> corpus_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Make make, Read read) {
    cases.push_back(on_file(name, 1 << 15, std::move(make), std::move(read)));
  };
  const auto po = [](const std::string& path) { (void)text::read_po(path); };
  add("PO messages", numbered_around("", "msgid \"a#\"\nmsgstr \"b\"\n\n", ""), po);
  add("PO headers", around("", "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=Big5\\n\"\n\n", ""), po);
  add("a PO text in lines", around("msgid \"\"\n", "\"a\\n\"\n", "msgstr \"b\"\n"), po);
  add("a PO text", around("msgid \"", "\\\"a", "\"\nmsgstr \"b\"\n"), po);
  add(
      "PO forms",
      [](size_t n) {
        std::string text = "msgid \"a\"\nmsgid_plural \"b\"\n";
        for (int64_t i = 0; text.size() < n; ++i) text += cat("msgstr[", i, "] \"c\"\n");
        return text;
      },
      po);
  add("PO comments", around("", "#, c-format\n", "msgid \"a\"\nmsgstr \"b\"\n"), po);
  const auto tsv = [](const std::string& path) { (void)text::read_tsv(path, 1, 2); };
  add("TSV lines", around("", "a\tb\n", ""), tsv);
  add("TSV quotes", around("a\tb\n", "\"a \"\"x\"\"\"\tb\n", ""), tsv);
  add("an open TSV quote", around("a\tb\n\"", "x\n", ""), tsv);
  add("TSV columns", around("a\tb", "\tc", "\n"), tsv);
  const auto tmx = [](const std::string& path) { (void)text::read_tmx(path, {"en", "de"}); };
  const std::string tmx_begin = "<tmx><header srclang='en'/><body>", tmx_end = "</body></tmx>";
  const std::string pair = "<tuv xml:lang='en'><seg>a</seg></tuv><tuv xml:lang='de'><seg>b</seg></tuv>";
  add("TMX units", around(tmx_begin, "<tu>" + pair + "</tu>", tmx_end), tmx);
  add("TMX variants",
      numbered_around(tmx_begin + "<tu>" + pair, "<tuv xml:lang='de-x#'><seg>b</seg></tuv>", "</tu>" + tmx_end), tmx);
  add("TMX tags", around(tmx_begin + "<tu>" + pair + "<tuv><seg>", "<ph>&lt;a</ph>", "</seg></tuv></tu>" + tmx_end),
      tmx);
  add(
      "TMX depth",
      [=](size_t n) {
        return tmx_begin + "<tu>" + pair + "<tuv><seg>" + repeated("<hi>x", n / 2) + repeated("</hi>", n / 2) +
               "</seg></tuv></tu>" + tmx_end;
      },
      tmx);
  add(
      "TMX attributes",
      [=](size_t n) { return tmx_begin + "<tu " + numbered("a#='' ", n) + ">" + pair + "</tu>" + tmx_end; }, tmx);
  const auto xliff = [](const std::string& path) { (void)text::read_xliff(path); };
  const std::string xliff_begin = "<xliff><file source-language='en' target-language='de'><body>",
                    xliff_end = "</body></file></xliff>";
  add("XLIFF units", around(xliff_begin, "<trans-unit><source>a</source><target>b</target></trans-unit>", xliff_end),
      xliff);
  add(
      "XLIFF depth",
      [=](size_t n) {
        size_t times = n / 80;
        std::string text = xliff_begin;
        for (size_t i = 0; i < times; ++i) text += "<trans-unit><target>b</target><source>x";
        for (size_t i = 0; i < times; ++i) text += "</source></trans-unit>";
        return text + xliff_end;
      },
      xliff);
  add("XLIFF files", around("<xliff>", "<file source-language='en' target-language='de'/>", "</xliff>"), xliff);
  add("lines", around("", "a b\n", ""), read_all_lines);
  add("one line", around("", "a b ", ""), read_all_lines);
  add("empty lines", around("", "\n", ""), read_all_lines);
  add(
      "packed lines", [](size_t n) { return gzip(numbered("a#\n", n)); }, read_all_lines);
  add(
      "one packed line", [](size_t n) { return gzip(numbered("a#", n)); }, read_all_lines);
  add(
      "parts of an archive", [](size_t n) { return repeated(gzip("a\n"), n); }, read_all_lines);
  for (const char* const unit : {"a", "a ", "a\n", "\n", "\u4e00"}) {
    add(cat("text of units ", one_line(unit)), around("", unit, ""), [](const std::string& path) {
      for (const auto documents : {data::Documents::kNo, data::Documents::kBlank})
        (void)data::load_token_text({path}, text::Units::bytes(), {.documents = documents});
    });
    add(cat("counted units ", one_line(unit)), around("", unit, ""), [](const std::string& path) {
      (void)text::count_units({path}, text::VocabType::kWord);
      (void)text::count_units({path}, text::VocabType::kChar);
    });
  }
  const auto columns = [](const std::string& path) { (void)data::load_columns({path}, {}); };
  add("columns", around("", "a O\n\n", ""), columns);
  add("one sentence of columns", numbered_around("", "a# O\n", ""), columns);
  add("comments of columns", around("", "# x\n", "a O\n"), columns);
  add("sentences of comments", around("", "# x\n\n", "a O\n"), columns);
  add(
      "CoNLL-U", [](size_t n) { return numbered("#\ta\tO\n", n); }, columns);
  add("labels of columns", numbered_around("", "a B-#\n\n", ""), columns);
  return cases;
}

namespace {

void little(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

// An entry of a zip archive without compression: the local header and bytes at `offset`, and its line of the directory.
struct Zip {
  std::string bytes, directory;
  int64_t entries = 0;
  void add_bytes(const std::string& name, const std::string& content) {
    bytes += "PK\x03\x04";
    little(bytes, 20, 2), little(bytes, 0, 8), little(bytes, crc(content), 4);
    little(bytes, content.size(), 4), little(bytes, content.size(), 4), little(bytes, name.size(), 2),
        little(bytes, 0, 2);
    bytes += name + content;
  }
  void add_entry(const std::string& name, const std::string& content, size_t offset) {
    directory += "PK\x01\x02";
    little(directory, 20, 2), little(directory, 20, 2), little(directory, 0, 8), little(directory, crc(content), 4);
    little(directory, content.size(), 4), little(directory, content.size(), 4), little(directory, name.size(), 2);
    little(directory, 0, 12), little(directory, offset, 4);
    directory += name;
    ++entries;
  }
  std::string whole() const {
    std::string all = bytes + directory + "PK\x05\x06";
    little(all, 0, 4), little(all, static_cast<uint64_t>(entries), 2), little(all, static_cast<uint64_t>(entries), 2);
    little(all, directory.size(), 4), little(all, bytes.size(), 4), little(all, 0, 2);
    return all;
  }
  static uint64_t crc(const std::string& content) {
    return crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  }
};

std::string npy(size_t floats) {
  std::string header = cat("{'descr': '<f4', 'fortran_order': False, 'shape': (", floats, ",), }");
  header.resize(118, ' ');
  std::string bytes = "\x93NUMPY";
  bytes += '\x01';
  bytes += '\0';
  little(bytes, header.size(), 2);
  return bytes + header + std::string(4 * floats, 'x');
}

}  // namespace

std::vector<Case> file_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Make make, Read read) {
    cases.push_back(on_text(name, 1 << 15, std::move(make), std::move(read)));
  };
  const auto yaml = [](const std::string& text) {
    TrainConfig config;
    from_yaml(text, "train.yml", config);
  };
  add("a YAML value", around("valid-metrics: ", "x", "\n"), yaml);
  add("a quoted YAML value", around("valid-metrics: \"", "x", "\"\n"), yaml);
  add("a YAML value of escapes", around("valid-metrics: \"", "\\x41", "\"\n"), yaml);
  add("a YAML value in lines", around("valid-metrics: ", "x\n  ", "\n"), yaml);
  add("a YAML block", around("valid-metrics: |\n", "  x\n", "\n"), yaml);
  add("a YAML list", around("valid-metrics: [", "x, ", "x]\n"), yaml);
  add("a YAML list in lines", around("valid-metrics:\n", "- x\n", ""), yaml);
  add("YAML comments", around("", "# x\n", "valid-metrics: x\n"), yaml);
  add("a YAML comment", around("# ", "x", "\nvalid-metrics: x\n"), yaml);
  add("YAML blanks", around("valid-metrics: x", " ", "\n"), yaml);
  add("YAML keys", numbered_around("", "k#: x\n", ""), yaml);
  cases.back().refusal = "unknown key";
  add("YAML depth", around("valid-metrics: ", "[", "\n"), yaml);
  cases.back().refusal = "train.yml";
  add("YAML maps", around("valid-metrics: ", "{a: ", "\n"), yaml);
  cases.back().refusal = "train.yml";
  add("YAML documents", around("", "---\n", ""), yaml);
  cases.back().refusal = "YAML documents";
  add("YAML anchors", numbered_around("valid-metrics: [", "&a# x, ", "*a1]\n"), yaml);
  add("YAML aliases", around("valid-metrics: [&a x, ", "*a, ", "x]\n"), yaml);
  add("a map", numbered_around("", "k#: x\n", ""), [](const auto& s) { (void)nn::parse_map(s, "checksums.yml"); });
  add("captions", numbered_around("", "#.jpg#0\ta dog\n", ""),
      [](const auto& s) { (void)data::parse_captions(s, "captions", {"train"}); });
  const auto json_captions = [](const auto& s) { (void)data::parse_captions(s, "captions", {"train"}); };
  add("captions in JSON",
      numbered_around("{\"annotations\": [", "{\"image_id\": #, \"caption\": \"x\"},",
                      "{\"image_id\": 0, \"caption\": \"x\"}]}"),
      json_captions);
  add("captions in words",
      around("{\"images\": [{\"split\": \"train\", \"cocoid\": 1, \"sentences\": [{\"tokens\": [\"a\"", ",\"b\"",
             "]}]}]}"),
      json_captions);
  add("splits of captions",
      numbered_around("{\"images\": [", "{\"split\": \"s#\", \"cocoid\": 1, \"sentences\": [{\"raw\": \"x\"}]},",
                      "{\"split\": \"train\", \"cocoid\": 1, \"sentences\": [{\"raw\": \"x\"}]}]}"),
      json_captions);
  add("a run's record",
      numbered_around("", "{\"event\": \"train\", \"updates\": #, \"cost\": 2.5, \"elapsed\": 1.0}\n", ""),
      [](const auto& s) { (void)analysis::parse_run_curves(s, "log.jsonl"); });
  add("measures of a run",
      numbered_around("",
                      "{\"event\": \"valid\", \"updates\": 1, \"metric\": \"m#\", \"value\": 2.5, \"new_best\": true, "
                      "\"elapsed\": 1.0}\n",
                      ""),
      [](const auto& s) { (void)analysis::parse_run_curves(s, "log.jsonl"); });
  add("gold links", numbered_around("", "1-2 3p4 ", ""), [](const auto& s) {
    (void)analysis::parse_gold_links(s, {}, {20, 30});
  });
  add("labels", numbered_around("O\n", "B-x#\nI-x#\n", ""),
      [](const auto& s) { (void)tagging::LabelSet::from_contents(s, "labels.txt"); });
  add("an index of tensors", numbered_around("{\"weight_map\": {\"t\": \"a\"", ",\"t#\": \"f\"", "}}"),
      [](const auto& s) { (void)models::parse_tensor_index(s, "index.json"); });
  add(
      "safetensors",
      [](size_t n) {
        std::string header = "{\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}" +
                             numbered(",\"t#\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", n) + "}";
        std::string file;
        little(file, header.size(), 8);
        return file + header;
      },
      [](const auto& s) { (void)nn::parse_safetensors_header(s, "model.safetensors"); });
  const auto npz = [](const std::string& path) { (void)data::read_npz(path); };
  cases.push_back(on_file(
      "arrays of an archive", 1 << 15,
      [](size_t n) {
        Zip zip;
        const std::string content = npy(4);
        for (size_t i = 0; i < n / 300; ++i) {
          zip.add_entry(cat("a", i, ".npy"), content, zip.bytes.size());
          zip.add_bytes(cat("a", i, ".npy"), content);
        }
        return zip.whole();
      },
      npz));
  cases.push_back(on_file(
      "arrays that overlap", 1 << 15,
      [](size_t n) {
        Zip zip;
        const std::string content = npy(n / 4);
        zip.add_bytes("a00000.npy", content);
        for (size_t i = 0; i < n / 100; ++i) zip.add_entry(cat("a", 10000 + i, ".npy"), content, 0);
        return zip.whole();
      },
      npz));
  cases.back().refusal = "overlap";
  return cases;
}

}  // namespace fovea::growth
