// What `assay train` shows and logs while it runs: the progress line on stderr, and train.csv.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "app/command_line/progress_line.h"

namespace assay::worker {

// Of the step that has just been made.
struct TrainProgress {
  std::int64_t step = 0, steps = 0;
  double loss = 0;                 // nats per token
  std::optional<double> eval_loss; // of the last evaluation, nats per token
  std::int64_t eval_step = 0;      // at which that was
  bool averaged = false;           // the evaluation reads the EMA weights
  double grad_norm = 0;
  double lr = 0;
  double tokens_per_second = 0;
  double seconds_left = 0;
  double data_wait = 0;                      // share of the step's time that waited for its batches
  std::optional<double> loss_scale;          // where the scaler is on
  std::optional<std::int64_t> skipped_steps; // by the scaler, since the training began
  std::string machine;                       // in a few words (short_text()), or ""
};

// At most `columns` wide: what does not fit is left out, the gradient norm first, then the machine,
// the scaler, the perplexity, the wait for data, the speed, the time left and the evaluation.
std::string progress_text(const TrainProgress& progress, std::size_t columns);

// One line that is rewritten on a terminal; in a pipe every 25th step, and every evaluation, as a
// plain line.
class TrainProgressLine {
public:
  void show(const TrainProgress& progress, bool evaluated);
  void end() { line_.keep(); } // the last figures stay

private:
  ProgressLine line_;
};

// train.csv: one row per step. A training that continues from step `first` > 0 keeps the rows up to
// it: later ones are of steps that are made again.
class TrainLog {
public:
  TrainLog(const std::string& path, std::int64_t first);
  void row(const TrainProgress& progress, std::optional<double> eval_loss);

private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

} // namespace assay::worker
