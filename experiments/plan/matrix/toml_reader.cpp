#include "experiments/plan/matrix/toml_reader.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

#include "core/file_kind.h"
#include "core/files/toml_text.h"
#include "core/system_call.h"
#include "core/text.h"

namespace assay {

using nlohmann::json;

void raise_toml_assertion() {
  throw TomlAssertion{};
}

std::string TomlProblems::place(const toml::node* where) const {
  if (where == nullptr) return file;
  const auto line = where->source().begin.line;
  if (line > 0) return line_name ? line_name(line) : fmt::format("{}:{}", file, line);
  if (const auto given = set_by.find(where); given != set_by.end())
    return "--set " + printable(given->second);
  const toml::table* made = where->as_table(); // for what was set in it
  return made == nullptr || made->empty() ? "--set" : place(&made->begin()->second);
}

void TomlProblems::add(const toml::node* where, const std::string& message) {
  messages.push_back(place(where) + ": " + message);
  lines.resize(messages.size());
  lines.back() = where == nullptr ? 0 : where->source().begin.line;
}

void TomlProblems::add_as_it_is(const std::string& message) {
  messages.push_back(message);
  lines.resize(messages.size());
}

std::string TomlProblems::suggestion(const std::string& key,
                                     const std::vector<std::string>& candidates) const {
  if (const auto home = homes.find(key); home != homes.end())
    return fmt::format(" (did you mean '{}'?)", fmt::join(home->second, "' or '"));
  const std::string near = did_you_mean(key, candidates);
  return near.empty() && !candidates.empty()
             ? fmt::format("; known keys are: {}", fmt::join(candidates, ", "))
             : near;
}

std::vector<std::string> TomlProblems::sorted() const {
  std::vector<std::pair<std::uint32_t, std::string>> numbered;
  for (std::size_t i = 0; i < messages.size(); ++i)
    numbered.emplace_back(i < lines.size() ? lines[i] : 0, messages[i]);
  std::ranges::stable_sort(numbered, {}, &std::pair<std::uint32_t, std::string>::first);
  std::vector<std::string> texts;
  for (auto& [line, text] : numbered) texts.push_back(std::move(text));
  return texts;
}

Error TomlProblems::error() const {
  return Error{fmt::format("{}", fmt::join(sorted(), "\n"))};
}

const toml::node* TomlTable::node(const char* key) {
  known_.insert(key);
  problems_.asked[path_].insert(key);
  return table_.get(key);
}

namespace {

std::string value_text(const toml::node& node) { // JSON has no nan and no inf
  if (const auto* number = node.as_floating_point()) return toml_float(number->get());
  return printable(toml_to_json(node).dump());
}

} // namespace

void TomlTable::wrong_type(const toml::node& node, const char* key, const std::string& wanted) {
  problems_.add(&node, fmt::format("{} {} takes {}, not {}", path_, key, wanted, value_text(node)));
}

void TomlTable::no_tables(const toml::node& node, const char* key) {
  const bool named = path_.size() > 2 && path_.front() == '[' && path_[1] != '[';
  const std::string header = named ? path_.substr(1, path_.size() - 2) + "." + key : key;
  problems_.add(
      &node,
      node.is_table()
          ? fmt::format("'{0}' may be there several times: write [[{0}]], not [{0}]", header)
          : fmt::format("'{0}' takes tables, each below a line [[{0}]], not {1}",
                        header,
                        value_text(node)));
}

std::optional<std::string> TomlTable::text(const char* key, const char* wanted) {
  const toml::node* found = node(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* value = found->as_string()) return value->get();
  wrong_type(*found, key, wanted);
  return std::nullopt;
}

std::optional<std::int64_t>
TomlTable::integer(const char* key, std::int64_t lowest, std::int64_t highest) {
  const toml::node* found = node(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* value = found->as_integer();
      value != nullptr && value->get() >= lowest && value->get() <= highest)
    return value->get();
  wrong_type(*found,
             key,
             lowest == highest ? fmt::format("{}", lowest)
                               : fmt::format("an integer from {} to {}", lowest, highest));
  return std::nullopt;
}

std::optional<double> TomlTable::share(const char* key, const ShareBounds& bounds) {
  const toml::node* found = node(key);
  if (found == nullptr) return std::nullopt;
  double value = 0;
  if (const auto* number = found->as_floating_point()) {
    value = number->get();
  } else if (const auto* words = found->as_string()) {
    const std::string& digits = words->get();
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const std::string_view unit = end;
    value = code == std::errc() && (unit == "%" || unit == " %") ? value / 100 : 0;
  }
  if (value > bounds.lowest &&
      (value < bounds.highest || (bounds.highest_too && value == bounds.highest)))
    return value;
  problems_.add(found,
                fmt::format("{} {} takes a share above {} and {} {} ({}), not {}{}",
                            path_,
                            key,
                            bounds.lowest,
                            bounds.highest_too ? "at most" : "below",
                            bounds.highest,
                            bounds.example,
                            value_text(*found),
                            bounds.meaning));
  return std::nullopt;
}

std::optional<double> TomlTable::positive(const char* key) {
  const toml::node* found = node(key);
  if (found == nullptr) return std::nullopt;
  const std::optional<double> value = found->value<double>(); // an integer counts as one
  if (value && *value > 0 && std::isfinite(*value)) return value;
  wrong_type(*found, key, "a number above 0");
  return std::nullopt;
}

std::vector<std::string> TomlTable::texts(const char* key) {
  std::vector<std::string> result;
  const toml::node* found = node(key);
  if (found == nullptr) return result;
  const toml::array* array = found->as_array();
  if (array == nullptr) {
    wrong_type(*found, key, "an array of strings");
    return result;
  }
  for (const toml::node& item : *array) {
    if (const auto* value = item.as_string())
      result.push_back(value->get());
    else
      wrong_type(item, key, "an array of strings");
  }
  return result;
}

const toml::table* TomlTable::table(const char* key) {
  const toml::node* found = node(key);
  if (found == nullptr) return nullptr;
  if (const toml::table* table = found->as_table()) return table;
  wrong_type(*found, key, "a table");
  return nullptr;
}

std::vector<const toml::table*> TomlTable::tables(const char* key) {
  std::vector<const toml::table*> result;
  const toml::node* found = node(key);
  if (found == nullptr) return result;
  const toml::array* array = found->as_array();
  if (array == nullptr) {
    no_tables(*found, key);
    return result;
  }
  for (const toml::node& item : *array) {
    if (const toml::table* table = item.as_table())
      result.push_back(table);
    else
      no_tables(item, key);
  }
  return result;
}

void TomlTable::required(const char* key, const char* example) {
  if (table_.contains(key)) return;
  const std::string write = *example == '\0' ? "" : fmt::format("; write {}", example);
  problems_.add(&table_, fmt::format("{} lacks the key '{}'{}", path_, key, write));
}

void TomlTable::no_other_keys() {
  const std::vector<std::string> candidates(known_.begin(), known_.end());
  for (const auto& [key, value] : table_) {
    const std::string name(key.str());
    if (known_.contains(name)) continue;
    const auto home = problems_.homes.find(name);
    const bool trains = home != problems_.homes.end() && home->second.front() == "base." + name;
    problems_.add(
        &value,
        fmt::format("unknown key '{}' in {}{}",
                    printable(name),
                    path_,
                    trains && known_.contains("set")
                        ? fmt::format(": write a training key in set = {{ {} = … }}", name)
                        : problems_.suggestion(name, candidates)));
  }
}

json toml_to_json(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* array = node.as_array()) {
    json result = json::array();
    for (const toml::node& item : *array) result.push_back(toml_to_json(item));
    return result;
  }
  if (const auto* table = node.as_table()) {
    json result = json::object();
    for (const auto& [key, value] : *table) result[std::string(key.str())] = toml_to_json(value);
    return result;
  }
  std::ostringstream text;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                  toml::is_date_time<decltype(value)>)
      text << value.get();
  });
  return text.str();
}

namespace {

// What the parser says, and what it means for a person who writes a matrix.
struct PlainCause {
  std::string_view says, means;
};
constexpr std::string_view kQuotes = "text is written in quotes, \"like this\"",
                           kNumber = "a number is written as 64, 0.5 or 1e-3; any other value is "
                                     "written in quotes, as in \"10m\"",
                           kName = "a name was expected, as in [base] or key = value",
                           kBackslash = "in quotes, a backslash begins an escape: write \\\\ for a "
                                        "backslash";
constexpr PlainCause kPlainCauses[] = {
    {"could not determine value type",
     "text is written in quotes, \"like this\"; other values are numbers, true, false and [a, b]"},
    {"control characters other than TAB",
     "the text lacks its closing quote, or contains a control character that is not visible"},
    {"expected 'true', saw 'T'", "true is written in small letters"},
    {"expected 'false', saw 'F'", "false is written in small letters"},
    {"leading zeroes are prohibited", "a number does not begin with 0"},
    {"expected value, saw", "a value is missing after the ="},
    {"encountered end-of-file", "the file ends here: a value, a bracket or a quote is missing"},
    {"expected ']', saw", "the header of a table lacks its closing bracket: write [name]"},
    {"expected comma or closing ']'", "values in [ ] are separated by commas"},
    {"key or closing '}'",
     "a table in { } is written on one line; for several lines write it as a table [name]"},
    {"invalid utf-8", "the file is not UTF-8; save it as UTF-8"},
    {"expected '=', saw", "a key is followed by =, as in seq_len = 256"},
    {"expected keys, tables", kName},
    {"expected a comment or whitespace, saw",
     "only a comment, which begins with #, may follow on this line"},
    {"not representable in 64 bits", "the number is too large"},
    {"could not be interpreted as a value", "the number is too large or too small for 64 bits"},
    {"exceeded maximum nested", "more than 256 brackets inside each other"},
    {"saw closing '}' (dangling comma)", "remove the comma before the closing }"},
    {"expected comma or closing '}'", "entries in { } are separated by commas"},
    {"bare key starting", kName},
    {"underscores", "an underscore in a number needs a digit on both sides"},
    {"escape", kBackslash},
    // The rest of what can be wrong, by what is read.
    {"parsing inline table", "entries in { } are written as key = value, separated by commas"},
    {"parsing array", "values in [ ] are separated by commas"},
    {"parsing octal", "write digits 0 to 7 after 0o"},
    {"parsing hexadecimal integer", "write digits 0 to 9 and a to f after 0x"},
    {"parsing binary", "write digits 0 and 1 after 0b"},
    {"floating-point", kNumber},
    {"parsing decimal", kNumber},
    {"parsing boolean", kQuotes},
    {"parsing date", kQuotes},
    {"parsing time", kQuotes},
    {"string: ", kQuotes},
    {"unicode", kBackslash},
    {"parsing", "this line is not TOML: write [name] or key = value"}};

constexpr std::string_view kArraysOfTables[] = {"'cell'", "'claim'", "'check'"};

std::string plain_cause(const std::string& description) {
  constexpr std::string_view kTwice = "cannot redefine existing ";
  if (const std::size_t at = description.find(kTwice); at != std::string::npos) {
    const std::size_t name = std::min(description.find('\'', at), description.size());
    const std::size_t end = description.find('\'', name + 1);
    const std::string quoted = description.substr(name, end - name + 1); // "" for a part of a.b.c
    if (std::ranges::find(kArraysOfTables, quoted) != std::end(kArraysOfTables))
      return fmt::format("for more than one of {}, write each header in double brackets", quoted);
    return fmt::format("{} is written twice; keep one of them",
                       quoted.empty() ? "a name before a dot" : quoted);
  }
  for (const PlainCause& cause : kPlainCauses)
    if (description.find(cause.says) != std::string::npos) return std::string(cause.means);
  return description;
}

bool asserts(const std::string& text) {
  try {
    (void)toml::parse(text);
  } catch (const toml::parse_error&) {
    return false;
  } catch (const TomlAssertion&) {
    return true;
  }
  return false;
}

// The line at which the parser, which reads from front to back, gives up: the first lines up to it
// make it give up, fewer do not.
std::size_t asserting_line(const std::string& text) {
  std::vector<std::size_t> ends; // of the lines
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1))
    ends.push_back(end + 1);
  std::size_t good = 0, bad = ends.size() + 1; // numbers of lines
  while (bad - good > 1) {
    const std::size_t middle = (good + bad) / 2;
    (asserts(text.substr(0, ends[middle - 1])) ? bad : good) = middle;
  }
  return bad;
}

} // namespace

Result<toml::table>
parse_toml(const std::string& text, const std::string& file, const LineName& line_name) {
  const auto place = [&](std::size_t line) {
    return line_name ? line_name(line) : fmt::format("{}:{}", file, line);
  };
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return fail("{}{}: {}",
                place(error.source().begin.line),
                line_name ? "" : fmt::format(":{}", error.source().begin.column),
                printable(plain_cause(std::string(error.description()))));
  } catch (const TomlAssertion&) {
    return fail("{}: a name was expected, as in [base] or key = value",
                place(asserting_line(text)));
  }
}

namespace {

// ", name a file in it, as dir/a.toml", or "" for what is no directory.
std::string file_in_it(const std::string& path) {
  std::error_code error;
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.path().extension() == ".toml") files.insert(entry.path().string());
  if (error) return "";
  return files.empty() ? ", name a file" : ", name a file in it, as " + printable(*files.begin());
}

} // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  if (const std::string why = why_no_plain_file(path); !why.empty())
    return fail("{}: {}{}; `-` reads standard input", path, why, file_in_it(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("{}: cannot be read: {}", path, system_cause(errno));
  text << file.rdbuf();
  if (file.bad()) return fail("{}: cannot be read: {}", path, system_cause(errno));
  return text.str();
}

std::string text_file_name(const std::string& path) {
  return path == "-" ? std::string(kStandardInput) : path;
}

} // namespace assay
