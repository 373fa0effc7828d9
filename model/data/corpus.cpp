#include "model/data/corpus.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/file_kind.h"
#include "core/json_fault.h"
#include "core/result.h"
#include "core/system_call.h"
#include "core/text.h"
#include "model/data/parquet/parquet_texts.h"
#include "model/data/seeded_random.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSniff =
    8192; // bytes that are read to distinguish text from binary when a corpus is opened
constexpr std::uint64_t kHeldOutEvery = 20;
constexpr std::uint64_t kSplitSeed = 0x5b17; // changing it changes every split
constexpr std::uint64_t kMinPiece = 4096;    // pieces of a single text file
constexpr std::uint64_t kMaxPiece = std::uint64_t{1} << 20;
constexpr std::uint64_t kPieces = 100;

std::uint64_t split_hash(std::uint64_t document) {
  return mix(document ^ (kSplitSeed << 32));
}

bool held_by_rule(std::uint64_t document) {
  return split_hash(document) % kHeldOutEvery == 0;
}

bool is_jsonl(const std::string& path) {
  const std::string name = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

bool hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

// Regular files below a directory, sorted by path; everything else is counted. Names that
// begin with a dot are left out, with all below them.
std::vector<std::string> list_files(const std::string& directory, SkippedFiles& skipped) {
  std::vector<std::string> files;
  try {
    for (fs::recursive_directory_iterator it(directory), end; it != end; ++it) {
      if (hidden(it->path())) {
        if (it->is_directory()) it.disable_recursion_pending();
        continue;
      }
      const fs::file_type type = it->status().type();
      if (type == fs::file_type::regular)
        files.push_back(it->path().string());
      else if (type == fs::file_type::not_found) // a link to nothing
        ++skipped.unreadable;
      else if (type != fs::file_type::directory)
        ++skipped.special;
    }
  } catch (const fs::filesystem_error& error) {
    const fs::path& at = error.path1().empty() ? fs::path(directory) : error.path1();
    bad_input("'{}' cannot be listed: {}", at.string(), system_cause(error.code().value()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

enum class Look { Text, Binary, Empty };

// `begin` gets the first kSniff bytes, fewer of a binary file.
Look look_at(const TextFile& file, std::string& begin) {
  bool binary = false;
  file.scan([&](std::string_view chunk) {
    const std::string_view part = chunk.substr(0, kSniff - begin.size());
    begin += part;
    binary = part.find('\0') != std::string_view::npos;
    return !binary && begin.size() < kSniff;
  });
  if (binary) return Look::Binary;
  return begin.empty() ? Look::Empty : Look::Text;
}

TextRange
make_range(const TextFile& file, std::uint64_t offset, std::uint64_t end, std::uint64_t line) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (end - offset > kMax || line > kMax) {
    bad_input("{}:{}: the line is longer than 4 GiB or the file has too many lines; split the file",
              file.path(),
              line);
  }
  return {offset, static_cast<std::uint32_t>(end - offset), static_cast<std::uint32_t>(line)};
}

// The lines that are not blank.
std::vector<TextRange> index_lines(TextFile& file) {
  std::vector<TextRange> lines;
  std::uint64_t offset = 0;
  std::uint64_t begin = 0;
  std::uint64_t line = 1;
  bool blank = true;
  const auto finish = [&](std::uint64_t end) {
    if (!blank) lines.push_back(make_range(file, begin, end, line));
    blank = true;
    ++line;
    begin = end + 1;
  };
  file.index([&](std::string_view chunk) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const char c = chunk[i];
      if (c == '\n') {
        finish(offset + i);
      } else if (c != ' ' && c != '\t' && c != '\r') {
        blank = false;
      }
    }
    offset += chunk.size();
    return true;
  });
  finish(offset);
  return lines;
}

// Where one text file is cut into documents: at the first line end past each multiple of the piece
// size, or, in a line longer than that again, before the next UTF-8 character. Empty: the file is
// binary.
std::vector<TextRange> index_pieces(TextFile& file) {
  std::uint64_t length = 0;
  bool binary = false;
  file.scan([&](std::string_view chunk) {
    length += chunk.size();
    binary = chunk.find('\0') != std::string_view::npos;
    return !binary;
  });
  if (binary) return {};
  std::uint64_t piece = std::clamp(length / kPieces, kMinPiece, kMaxPiece);
  if (length < 2 * piece) piece = (length + 1) / 2;

  std::vector<TextRange> pieces;
  std::uint64_t begin = 0;
  std::uint64_t at = 0;
  char previous = 0;
  file.index([&](std::string_view chunk) {
    for (const char c : chunk) {
      const std::uint64_t size = at - begin;
      const bool line_start = previous == '\n';
      const bool character_start = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
      if ((size >= piece && line_start) || (size >= 2 * piece && character_start)) {
        pieces.push_back(make_range(file, begin, at, 0));
        begin = at;
      }
      previous = c;
      ++at;
    }
    return true;
  });
  if (at > begin) pieces.push_back(make_range(file, begin, at, 0));
  if (pieces.size() == 1 && at >= 2) { // a short file whose last line is most of it
    pieces = {make_range(file, 0, at / 2, 0), make_range(file, at / 2, at, 0)};
  }
  return pieces;
}

std::string parse_record(const std::string& line, const std::string& where) {
  try {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.is_object() && record.contains("text") && record["text"].is_string()) {
      return record["text"].get<std::string>();
    }
  } catch (const nlohmann::json::exception& error) {
    bad_input(
        "{}: {}; every line must be one object with a \"text\" field", where, json_fault(error));
  }
  bad_input("{}: the record has no \"text\" field that is a string; every line must be like "
            "{{\"text\": \"…\"}}",
            where);
}

} // namespace

std::string_view to_string(Split split) {
  return split == Split::Train ? "train" : "held_out";
}

std::string SkippedFiles::text() const {
  std::vector<std::string> parts;
  const std::pair<const char*, std::uint64_t> kinds[] = {{"binary", binary},
                                                         {"empty", empty},
                                                         {"unreadable", unreadable},
                                                         {"not a regular file", special}};
  for (const auto& [name, count] : kinds)
    if (count > 0) parts.push_back(fmt::format("{} {}", count, name));
  if (parts.empty()) return "";
  return fmt::format(
      "{} file{} skipped ({})", total(), total() == 1 ? "" : "s", fmt::join(parts, ", "));
}

Corpus Corpus::open(const std::string& path) {
  constexpr std::string_view kWhat =
      "a directory of text files, a text file, or JSONL or Parquet with a \"text\" field";
  if (path.empty()) bad_input("no data given: set `data` to {}", kWhat);
  if (const std::string why = why_unreachable(path); !why.empty())
    bad_input("data '{}': {}", path, why);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) bad_input("data '{}' does not exist: give {}", path, kWhat);

  Corpus corpus;
  corpus.path_ = path;
  if (fs::is_directory(status)) {
    const std::vector<std::string> files = list_files(path, corpus.skipped_);
    if (files.empty() && corpus.skipped_.total() == 0)
      bad_input("data '{}' contains no file: put text files into it, or give another directory",
                path);
    for (const std::string& file : files) {
      if (::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0)
        corpus.add_file(file, files.size() == 1);
      else
        ++corpus.skipped_.unreadable;
    }
  } else {
    corpus.add_file(path, true);
  }
  if (corpus.documents_ == 0) {
    bad_input("data '{}' contains no text: {}; give {}", path, corpus.skipped_.text(), kWhat);
  }
  return corpus;
}

void Corpus::add_file(const std::string& path, bool only_source) {
  if (path.ends_with(".parquet")) return add_parquet(path);
  auto file = std::make_shared<TextFile>(path);
  std::string begin;
  const Look look = look_at(*file, begin);
  if (look == Look::Binary) ++skipped_.binary;
  if (look == Look::Empty) ++skipped_.empty;
  if (look != Look::Text) return;

  CorpusSource source{path, CorpusSource::Kind::WholeFile, documents_, nullptr, {}};
  std::uint64_t count = 1;
  if (is_jsonl(path) || only_source) {
    source.kind = is_jsonl(path) ? CorpusSource::Kind::Jsonl : CorpusSource::Kind::Pieces;
    source.ranges = is_jsonl(path) ? index_lines(*file) : index_pieces(*file);
    count = source.ranges.size();
    if (count == 0) {
      ++(is_jsonl(path) ? skipped_.empty : skipped_.binary);
      return;
    }
    source.file = file;
  }
  add_source(std::move(source), count, file->stored_bytes(), begin);
  // A file of the wrong shape is refused when it is opened; later lines are checked when they are
  // read.
  if (sources_.back().kind == CorpusSource::Kind::Jsonl) (void)read(documents_ - count);
}

void Corpus::add_parquet(const std::string& path) {
  if (!spool_) spool_ = std::make_shared<TextSpool>();
  CorpusSource source{path, CorpusSource::Kind::Rows, documents_, nullptr, {}};
  for (const ParquetText& text : decode_parquet(path, *spool_))
    source.ranges.push_back({text.offset, text.size, text.row});
  const std::uint64_t count = source.ranges.size();
  if (count == 0) {
    ++skipped_.empty;
    return;
  }
  const InputFile file(path);
  std::string begin(kSniff, '\0');
  begin.resize(file.read_at(0, begin.data(), begin.size()));
  add_source(std::move(source), count, file.size(), begin);
}

void Corpus::add_source(CorpusSource source,
                        std::uint64_t count,
                        std::uint64_t stored_bytes,
                        const std::string& begin) {
  const std::string relative = fs::path(source.path).lexically_relative(path_).generic_string();
  fingerprint_ = content_hash(fmt::format(
      "{}|{}|{}|{}|{}", fingerprint_, relative, stored_bytes, count, content_hash(begin)));
  sources_.push_back(std::move(source));
  documents_ += count;
}

const CorpusSource& Corpus::source_of(std::uint64_t document) const {
  if (document >= documents_)
    internal_error("document {} of {} was asked for", document, documents_);
  const auto after = std::upper_bound(sources_.begin(),
                                      sources_.end(),
                                      document,
                                      [](std::uint64_t index, const CorpusSource& source) {
                                        return index < source.first_document;
                                      });
  return *std::prev(after);
}

std::string Corpus::name(std::uint64_t document) const {
  const CorpusSource& source = source_of(document);
  if (source.kind == CorpusSource::Kind::WholeFile) return source.path;
  const TextRange& range = source.ranges[document - source.first_document];
  if (range.line > 0) return fmt::format("{}:{}", source.path, range.line);
  return fmt::format("{} (bytes {} to {})", source.path, range.offset, range.offset + range.size);
}

std::uint64_t Corpus::bytes(std::uint64_t document) const {
  const CorpusSource& source = source_of(document);
  if (source.kind != CorpusSource::Kind::WholeFile)
    return source.ranges[document - source.first_document].size;
  std::error_code gone;
  const std::uintmax_t size = std::filesystem::file_size(source.path, gone);
  return gone ? 0 : size;
}

std::optional<std::string> Corpus::read(std::uint64_t document) const {
  const CorpusSource& source = source_of(document);
  std::string text;
  if (source.kind == CorpusSource::Kind::WholeFile) {
    text = TextFile(source.path).read_all();
  } else {
    const TextRange& range = source.ranges[document - source.first_document];
    text = source.kind == CorpusSource::Kind::Rows ? spool_->read(range.offset, range.size)
                                                   : source.file->read(range.offset, range.size);
    if (source.kind == CorpusSource::Kind::Jsonl) text = parse_record(text, name(document));
  }
  if (text.find('\0') != std::string::npos) return std::nullopt;
  return text;
}

std::vector<std::uint64_t> Corpus::documents(Split split) const {
  if (documents_ < 2) {
    const std::string skipped = skipped_.text();
    bad_input("data '{}' has a single document{}, and the held-out split needs one of its own: add "
              "documents",
              path_,
              skipped.empty() ? "" : ", " + skipped);
  }
  std::uint64_t held_out = 0;
  std::uint64_t lowest = 0;  // the document that is held out when the rule finds none
  std::uint64_t highest = 0; // the document that trains when the rule selects all
  for (std::uint64_t i = 0; i < documents_; ++i) {
    if (held_by_rule(i)) ++held_out;
    if (split_hash(i) < split_hash(lowest)) lowest = i;
    if (split_hash(i) > split_hash(highest)) highest = i;
  }
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t i = 0; i < documents_; ++i) {
    bool held = held_by_rule(i);
    if (held_out == 0) held = i == lowest;
    if (held_out == documents_) held = i != highest;
    if (held == (split == Split::HeldOut)) chosen.push_back(i);
  }
  return chosen;
}

} // namespace assay
