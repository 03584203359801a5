#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// All of a file. Errors name the path and say missing, directory, unreadable, as the case is.
std::string read_file(const std::filesystem::path& path);

// Reads a text file like read_file(), without a byte order mark at its beginning.
std::string read_text_file(const std::filesystem::path& path);

// Throws unless `path` is a readable regular file or stream; `what` names it in the message ("--train-sets").
void require_file(const std::filesystem::path& path, std::string_view what);

// Throws if writing `output` would change one of the files `inputs`, by whatever path; "-" is none. `option` is
// output's ("--output").
void require_other_file(std::string_view option, const std::string& output, const std::vector<std::string>& inputs);

// Throws unless `path` can be written, as far as that shows before hours of work: its folder is there and may be
// changed, and `path` is not a folder. `option` is as above.
void require_writable(std::string_view option, const std::filesystem::path& path);

// Throws if something else than a regular file or a folder is at `path`, whose name the program chose itself. A folder
// that came from someone else may have a link of that name, which leads the writing elsewhere, or a pipe. `option`
// named the folder.
enum class OwnPlace { kFile, kFolder };
void require_own_place(std::string_view option, const std::filesystem::path& path, OwnPlace kind);

// Writes `path` so that a crash leaves the old content or the new, never a mixture: a file in a marked folder beside it
// (base/aside.h), fsync, rename, fsync of the folder. Every failure, a full disk too, throws and removes the marked
// folder. Marked folders of killed calls are removed in the end.
void write_file(const std::filesystem::path& path, std::string_view content);

// fsync of a file or folder that was written by other means.
void sync_path(const std::filesystem::path& path);

// XXH3-64 of the bytes, 16 hexadecimal digits.
std::string checksum(std::string_view bytes);

// The name of a text input in messages: its path in quotes, or "standard input" for "-".
std::string input_name(const std::string& path);

// Whether an input's first bytes may be a byte order mark, which is not text, or are data like the others.
enum class Content : uint8_t { kText, kBytes };

// Text input: "-" is standard input; .gz, .xz, .bz2 and .zst are unpacked by content, not by name. A byte order mark at
// the beginning of a text is left out; further ones stay.
// Reading a corrupt or truncated archive throws an Error with the path.
class LineReader {
 public:
  // In bytes. text8, 100 MB of words without a line end, is shorter.
  static constexpr size_t kLongestLine = size_t{128} << 20;

  explicit LineReader(const std::string& path, Content content = Content::kText);
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  // The next line without its end ("\n" or "\r\n"); false at the end. The last line may lack its end. Throws for a line
  // that is longer than kLongestLine.
  bool next(std::string& line);
  // Like next(); throws if the line is not UTF-8.
  bool next_text(std::string& line);
  std::string rest();  // all bytes that are left, line ends as they are
  // Appends the next bytes, line ends as they are, at most `most`; returns how many, 0 at the end.
  size_t read(std::string& bytes, size_t most);
  int64_t line_number() const { return line_number_; }  // of the line last returned, from 1
  const std::string& path() const { return path_; }

 private:
  struct Stream;
  void skip_byte_order_mark();
  std::string path_;
  std::unique_ptr<Stream> stream_;
  int64_t line_number_ = 0;
};

// All of a file, unpacked.
std::string read_unpacked(const std::string& path, Content content = Content::kText);

// All lines of a UTF-8 text.
std::vector<std::string> read_lines(const std::string& path);

// Text output: "-" is standard output; a name that ends in .gz, .bz2, .xz or .zst is packed. Regular files appear by
// rename in close(); without close() (an exception) nothing appears. Every write failure throws.
class LineWriter {
 public:
  explicit LineWriter(const std::string& path);
  ~LineWriter();
  LineWriter(LineWriter&&) noexcept;
  void write(std::string_view text);  // as it is
  void line(std::string_view text);   // with "\n"
  void flush();                       // to the reader at the other end
  void close();
  // In place of close(), when the work stops early: what was written appears as "OUT.partial" ("OUT.partial.gz" for
  // OUT.gz), or if a file has that name, as "OUT.partial2" and so on. Returns the name; "" if the output is not a
  // regular file, whose reader has it already.
  std::string close_as_partial();

 private:
  struct Stream;
  std::string path_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace fovea
