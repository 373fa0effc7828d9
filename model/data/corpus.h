// Corpus: the documents of a directory of text files, of one text file, of JSONL or of Parquet.
// Opening lists and indexes; the text of a document is read when it is asked for, so a corpus may
// be larger than memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/data/text_file.h"

namespace assay {

enum class Split { Train, HeldOut };
std::string_view to_string(Split split);

class TextSpool; // model/data/parquet/parquet_texts.h

// The place of a document inside a file of many.
struct TextRange {
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::uint32_t line = 0; // or row, 1-based, for messages; 0: neither
};

struct CorpusSource {
  enum class Kind { WholeFile, Jsonl, Pieces, Rows };
  std::string path;
  Kind kind = Kind::WholeFile;
  std::uint64_t first_document = 0;     // index in the corpus of its first document
  std::shared_ptr<const TextFile> file; // kept open for Jsonl and Pieces; null for WholeFile
  std::vector<TextRange> ranges;        // of all but WholeFile; of Rows in the spool
};

// Files of a corpus that give no document.
struct SkippedFiles {
  std::uint64_t binary = 0;     // a NUL byte among the first 8 KiB
  std::uint64_t empty = 0;      // no byte, or no line that is not blank
  std::uint64_t unreadable = 0; // permission, or a link to nothing
  std::uint64_t special = 0;    // pipes, devices, sockets

  std::uint64_t total() const { return binary + empty + unreadable + special; }
  // "3 files skipped (2 binary, 1 empty)", or "" for none.
  std::string text() const;
};

class Corpus {
public:
  // Throws bad input: missing path, a path that cannot be read or is a pipe or device, malformed
  // JSONL, damaged Parquet, or no text at all. In a directory such files are skipped and counted.
  static Corpus open(const std::string& path);

  // Number of documents; a document found to be binary only when it is read still counts.
  std::uint64_t size() const { return documents_; }
  // The text of a document, any thread. Nothing for one with a NUL byte beyond what open()
  // looked at.
  std::optional<std::string> read(std::uint64_t document) const;
  // Bytes of a document as it is stored: of a compressed file the compressed ones, of JSONL those
  // of its line. 0 where the file is gone.
  std::uint64_t bytes(std::uint64_t document) const;
  // "dir/file.txt" or "file.jsonl:17"
  std::string name(std::uint64_t document) const;

  // Indices of the split's documents, ascending. A document's split follows from its index alone.
  // Throws bad input when the corpus has a single document, which cannot be in both.
  std::vector<std::uint64_t> documents(Split split) const;

  const std::string& path() const { return path_; }
  const SkippedFiles& skipped() const { return skipped_; }
  // Changes when a file is added, removed, renamed or resized, or when its first 8 KiB change: a
  // resumed run must see the same documents.
  std::string fingerprint() const { return fingerprint_; }

private:
  void add_file(const std::string& path, bool only_source);
  void add_parquet(const std::string& path);
  void add_source(CorpusSource source,
                  std::uint64_t count,
                  std::uint64_t stored_bytes,
                  const std::string& begin);
  const CorpusSource& source_of(std::uint64_t document) const;

  std::string path_;
  std::vector<CorpusSource> sources_;
  std::uint64_t documents_ = 0;
  SkippedFiles skipped_;
  std::string fingerprint_;
  std::shared_ptr<TextSpool> spool_; // of all Parquet files; null: none
};

} // namespace assay
