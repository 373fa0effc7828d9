#include "profilers/monitor/train_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "core/text.h"

namespace assay {

namespace {

constexpr std::streamoff kTail = 4096; // more than two rows

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line)
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

} // namespace

std::optional<TrainRow> last_train_row(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string header;
  if (!std::getline(file, header)) return std::nullopt;
  const std::streamoff begin = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  file.seekg(std::max(begin, size - kTail));
  std::string tail(std::istreambuf_iterator<char>(file), {});
  const std::size_t end = tail.rfind('\n'); // behind it is a row that is being written
  if (end == std::string::npos) return std::nullopt;
  tail.resize(end);
  const std::size_t before = tail.rfind('\n');
  const std::vector<std::string> names = words_of(header),
                                 words = words_of(
                                     before == std::string::npos ? tail : tail.substr(before + 1));
  if (words.size() != names.size()) return std::nullopt;
  TrainRow row;
  for (std::size_t i = 0; i < names.size(); ++i) {
    char* rest = nullptr;
    const double value = std::strtod(words[i].c_str(), &rest);
    if (!words[i].empty() && *rest == '\0') row[names[i]] = value;
  }
  return row;
}

std::string train_row_text(const TrainRow& row) {
  std::string text;
  const auto add = [&](const char* name, auto format) {
    if (const auto found = row.find(name); found != row.end())
      text += (text.empty() ? "" : ", ") + format(found->second);
  };
  add("step", [](double v) { return fmt::format("step {:.0f}", v); });
  add("loss",
      [](double v) { return fmt::format("loss {:.4f}, perplexity {:.4g}", v, std::exp(v)); });
  add("tokens_per_s", [](double v) { return fmt::format("{:.0f} tokens/s", v); });
  add("data_wait", [](double v) { return fmt::format("{:.1f} % waits for data", 100 * v); });
  add("loss_scale", [](double v) { return fmt::format("loss scale {:.0f}", v); });
  add("skipped_steps", [](double v) { return fmt::format("{:.0f} steps skipped", v); });
  return text;
}

} // namespace assay
