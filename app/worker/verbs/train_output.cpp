#include "app/worker/verbs/train_output.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/files/atomic_file.h"
#include "core/result.h"
#include "core/system_call.h"
#include "core/text.h"

namespace assay::worker {

namespace {

constexpr int kStepsInPipe = 25;
constexpr const char* kHeader =
    "step,loss,grad_norm,lr,tokens_per_s,eval_loss,data_wait,loss_scale,skipped_steps\n";
// Until version 0.5.6.
constexpr const char* kShortHeader = "step,loss,grad_norm,lr,tokens_per_s,eval_loss\n";
constexpr const char* kMissing = ",,,"; // what a row below it lacks

// The header and the whole rows of steps up to `last`, or "" where there is no such file.
std::string rows_up_to(const std::string& path, std::int64_t last) {
  std::ifstream file(path);
  std::string kept, line, missing;
  while (std::getline(file, line) && !file.eof()) { // a line without its end was cut off
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
    const bool row = error == std::errc{} && end != line.data() + line.size() && *end == ',';
    if (kept.empty() && line + "\n" == kShortHeader) {
      missing = kMissing;
      kept = kHeader;
    } else if (kept.empty() ? line + "\n" == kHeader : row && step <= last) {
      kept += line + missing + "\n";
    }
  }
  return kept;
}

} // namespace

std::string progress_text(const TrainProgress& p, std::size_t columns) {
  const std::string eval_step = p.eval_step == p.step ? "" : fmt::format(" (step {})", p.eval_step);
  const std::string start = fmt::format("step {}/{}  loss {:.4f}", p.step, p.steps, p.loss);
  struct Part {
    std::string text;
    int rank; // the highest is left out first
  };
  const std::array<Part, 8> parts{
      {{fmt::format("  ppl {:.4g}", std::exp(p.loss)), 4},
       {p.eval_loss
            ? fmt::format(
                  "  {}eval loss {:.4f}{}", p.averaged ? "EMA " : "", *p.eval_loss, eval_step)
            : "",
        0},
       {fmt::format("  {:.0f} tokens/s", p.tokens_per_second), 2},
       {fmt::format("  data {:.1f} %", 100 * p.data_wait), 3},
       {p.loss_scale
            ? fmt::format("  scale {:.0f}, {} skipped", *p.loss_scale, p.skipped_steps.value_or(0))
            : "",
        5},
       {fmt::format("  grad norm {:.3f}", p.grad_norm), 7},
       {p.machine.empty() ? "" : "  " + p.machine, 6},
       {p.seconds_left < 1 ? "" : "  ETA " + human_seconds(p.seconds_left), 1}}};
  constexpr int kRanks = 8;
  for (int ranks = kRanks; ranks >= 0; --ranks) {
    std::string text = start;
    for (const Part& part : parts)
      if (part.rank < ranks) text += part.text;
    if (text.size() <= columns) return text;
  }
  return start.substr(0, columns);
}

void TrainProgressLine::show(const TrainProgress& progress, bool evaluated) {
  const bool at_once = evaluated || progress.step == progress.steps;
  if (at_once || line_.terminal() || progress.step % kStepsInPipe == 0)
    line_.show(progress_text(progress, line_.columns()), at_once);
}

TrainLog::TrainLog(const std::string& path, std::int64_t first) : path_(path) {
  const std::string kept = first > 0 ? rows_up_to(path, first) : "";
  write_file_atomically(path, kept.empty() ? kHeader : kept);
  file_.reset(std::fopen(path.c_str(), "a"));
  if (file_ == nullptr) bad_input("cannot write {}: {}", path, system_cause(errno));
}

void TrainLog::row(const TrainProgress& p, std::optional<double> eval_loss) {
  fmt::print(file_.get(),
             "{},{:.6f},{:.6f},{:.6g},{:.1f},{},{:.4f},{},{}\n",
             p.step,
             p.loss,
             p.grad_norm,
             p.lr,
             p.tokens_per_second,
             eval_loss ? fmt::format("{:.6f}", *eval_loss) : "",
             p.data_wait,
             p.loss_scale ? fmt::format("{:.6g}", *p.loss_scale) : "",
             p.skipped_steps ? fmt::format("{}", *p.skipped_steps) : "");
  if (std::fflush(file_.get()) != 0)
    bad_input("cannot write {}: {}; see to that and resume from the last checkpoint",
              path_,
              std::strerror(errno));
}

} // namespace assay::worker
