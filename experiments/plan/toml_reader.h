// Strict reading of a TOML table: every key is asked for once, and whatever was not asked for is an
// unknown key. Errors are collected, each with file and line, so that a person sees all of them at
// once.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// toml++ 3.3 asserts where it should report an error ("[" at a line's end): parse_toml() makes
// an error of it.
namespace assay {
struct TomlAssertion {};
[[noreturn]] void raise_toml_assertion();
} // namespace assay
#define TOML_ASSERT(expr) static_cast<void>((expr) ? void() : ::assay::raise_toml_assertion())
#include <toml++/toml.h>

#include "core/result.h"

namespace assay {

struct TomlProblems {
  std::string file;
  std::vector<std::string> messages;

  // "FILE:LINE: message"; nodes that came from --set have no line and are named so.
  void add(const toml::node* where, const std::string& message);
  Error error() const; // all messages, one a line
};

class TomlTable {
public:
  // `path` names the table in messages ("[experiment]", "[[cell]] 'varlen'").
  TomlTable(const toml::table& table, std::string path, TomlProblems& problems)
      : table_(table), path_(std::move(path)), problems_(problems) {}

  std::optional<std::string> text(const char* key);
  std::optional<std::int64_t> integer(const char* key, std::int64_t lowest, std::int64_t highest);
  std::optional<double> share(const char* key);    // 0.01 or "1%", in (0, 1)
  std::optional<double> positive(const char* key); // a finite number above 0
  std::vector<std::string> texts(const char* key); // array of strings; absent: empty
  const toml::table* table(const char* key);
  std::vector<const toml::table*> tables(const char* key); // array of tables
  const toml::node* node(const char* key); // present or null; marks the key as known
  bool has(const char* key) const { return table_.contains(key); }

  void required(const char* key);
  void no_other_keys(); // reports what was never asked for
  const toml::table& raw() const { return table_; }
  const std::string& path() const { return path_; }
  TomlProblems& problems() { return problems_; }

private:
  void wrong_type(const toml::node& node, const char* key, const char* wanted);

  const toml::table& table_;
  std::string path_;
  TomlProblems& problems_;
  std::set<std::string> known_;
};

// A TOML value as JSON: strings, numbers, truth values, arrays, tables. Dates become text.
nlohmann::json toml_to_json(const toml::node& node);

// The file as a table, or "FILE:LINE: message".
Result<toml::table> parse_toml(const std::string& text, const std::string& file);
// "-": standard input.
Result<std::string> read_text_file(const std::string& path);

} // namespace assay
