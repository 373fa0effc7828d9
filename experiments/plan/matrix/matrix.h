// A matrix file: what a person asks for (docs/matrix.md). Strict TOML; nothing is resolved here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/statistics/design.h"
#include "experiments/evidence/effect.h"
#include "model/config/optimization.h"

namespace assay {

// TrainConfig keys as they were written, with the place to blame ("quickstart.toml:12").
struct ConfigValue {
  std::string key;
  nlohmann::json value;
  std::string where;
  bool in_file = false; // false: of --set
};

// Loss launches: each trains every variant from one seed, so that final losses can be compared.
struct LossSettings {
  int seeds = 4;     // 0: none
  int steps = 500;   // optimizer steps a seed and variant
  int every = 10;    // steps a visit; divides `steps`
  double margin = 0; // nats per token that count as no difference; above 0 where seeds are
  double target = 0; // nats per token whose reaching is timed; 0: none
};

// A side of a comparison that the file describes itself, or a step of a design.
struct MatrixVariant {
  std::string name;
  std::vector<ConfigValue> set; // over the cell's
  std::string where;
  // Of its own process: variables as "K=V\n", and the worker's program; "": the run's.
  std::string environment = {}, worker = {};
};

// How variants take turns: all in one process, each in a process of its own step by step or one
// process after the other, or what they need.
enum class Interleave { Auto, Twin, Turns, Launches };

struct MatrixCell {
  std::string name, optimization;
  std::vector<MatrixVariant> variants; // instead of an optimization, in the order of the file
  std::optional<Design> design;        // instead of both, with its steps, likewise
  std::vector<MatrixVariant> steps;
  std::optional<Equivalence> expect; // of variants and steps; absent: objective
  std::optional<Unit> unit;          // of variants and steps; absent: train_step
  std::string reference;             // level; empty: the row's first
  std::vector<std::string> levels;   // empty: all after the reference
  std::vector<ConfigValue> set;
  std::optional<int> rounds, visit_steps, discard_steps, launches;
  std::optional<LossSettings> quality; // the cell's own keys over [quality]; absent: [quality]
  std::string where;
  // Of each key that the cell has, and of each of `levels`: "levels/varlen".
  std::map<std::string, std::string> places;

  // The place of the first of `keys` that the cell has; of the cell where it has none.
  const std::string& place(std::initializer_list<std::string> keys) const;
};

// As many launches as the results ask for: a cell looks after the fewest that decide a speed, then
// after each of kLooks that is below its most, each time with a noticeably narrower interval.
inline constexpr int kAutoLaunches = 0;
inline constexpr std::array kLooks{kFullLaunches, 8, 12, 16};
inline constexpr int kUsualMostLaunches = 12, kMostLooked = 20;
inline constexpr int kEnergyRounds = 6; // of [energy] without `rounds`

struct Matrix {
  std::string file; // as given
  std::string text; // as read
  std::vector<std::string> overrides;
  std::string name;
  std::uint64_t seed = 1;
  int launches = kFullLaunches;          // timed launches per cell, or kAutoLaunches
  int max_launches = kUsualMostLaunches; // of a cell with kAutoLaunches
  std::optional<double> budget_seconds;  // wall time after which `run` stops
  std::vector<ConfigValue> base;
  std::vector<MatrixCell> cells;
  std::optional<double> sesoi; // absent: 1 % on the CPU, 0.5 % on a GPU
  double alpha = 0.05, power = 0.8;
  Interleave interleave = Interleave::Auto;
  DisturbanceLimits limits;                              // [limits]
  std::optional<int> rounds, visit_steps, discard_steps; // [measure]: defaults for all cells
  int traced_rounds = 10;                                // [trace]: 0 leaves traced launches out
  std::optional<double> trace_budget_bytes;              // [trace] max_gib; absent: no limit
  std::optional<LossSettings> quality;                   // of cells that may differ in a bit
  int energy_rounds = 0;                                 // [energy]: 0 leaves energy launches out
  std::vector<std::string> claim_files; // [claims] files, as written; empty: no claims
  std::string claims_where;             // FILE:LINE of [claims] files
};

struct MatrixText {
  std::string text, file;
  // "base.seq_len=256", "experiment.launches=3", … applied before anything is checked.
  std::vector<std::string> overrides = {};
  // How messages name a line of the text, from 1; empty: FILE:LINE.
  std::function<std::string(std::size_t line)> line_name = {};
};

// What can be read of a matrix, and in `problems` what is wrong, each with its place. The error: it
// is no TOML, or much too large.
Result<Matrix> read_matrix(const MatrixText& from, std::vector<std::string>& problems);

// The same; all problems are the error, one a line.
Result<Matrix> parse_matrix(const std::string& text,
                            const std::string& file,
                            const std::vector<std::string>& overrides = {});
Result<Matrix> load_matrix(const std::string& path, const std::vector<std::string>& overrides = {});

// What `overrides` may set beside base.KEY: "experiment.launches", "measure.alpha", …
std::vector<std::string> matrix_settings();

// "90", "90s", "25m", "1.5h" or "1h30m" in seconds: hours, minutes and seconds in this order, each
// at most once; a number alone is seconds. At most a year.
Result<double> parse_duration(const std::string& text);

} // namespace assay
