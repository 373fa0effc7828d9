#include "app/assay/hand_over.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "app/assay/verbs.h"
#include "core/files/atomic_file.h"
#include "core/files/shell_text.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger_schema.h"
#include "core/result.h"

namespace assay::cli {

namespace {

void remove_without_ledger(const std::string& directory, const std::string& matrix) {
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::path(directory) / ledger_schema::kFileName, none))
    return;
  std::filesystem::remove(matrix, none);
  std::filesystem::remove(directory, none); // if nothing else is in it
}

} // namespace

void HandOver::add_to(CLI::App& command) {
  limits.add_to(command);
  command.add_flag("--quiet", quiet, "no progress line and no verdict table");
  command.add_flag("--json", json, "print the summary of the run as JSON");
  terminal.add_to(command);
}

void HandOver::add_data_to(CLI::App& command) {
  command.add_option("--data", data, "training data, if they were moved since the plan was made");
}

std::vector<std::string> HandOver::arguments(const std::string& matrix,
                                             const std::string& out) const {
  std::vector<std::string> words{"run", path_argument(matrix), "--out", path_argument(out)};
  for (const std::string& word : limits.arguments()) words.push_back(word);
  if (!data.empty()) words.insert(words.end(), {"--data", data});
  if (quiet) words.emplace_back("--quiet");
  if (json) words.emplace_back("--json");
  for (const std::string& word : terminal.arguments()) words.push_back(word);
  return words;
}

int HandOver::measure(const std::string& out,
                      const std::string& matrix,
                      const std::string& other) const {
  const std::string file = (std::filesystem::path(out) / "matrix.toml").string();
  make_directory(out);
  std::ifstream old(file, std::ios::binary);
  const std::string before{std::istreambuf_iterator<char>(old), {}};
  if (old && before != matrix)
    bad_input("{}: {}; rename or remove {}", file, other, shell_word(out));
  if (!old) write_file_atomically(file, matrix);
  try {
    const int code = run_matrix(arguments(file, out));
    if (!old) remove_without_ledger(out, file);
    return code;
  } catch (...) {
    if (!old) remove_without_ledger(out, file);
    throw;
  }
}

} // namespace assay::cli
