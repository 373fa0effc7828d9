// The table of optimizations: one row each, in model/config/optimizations/. From a row follow
// `assay list`, matrix validation, the parity gate, the engaged proof, the smoke tests, the
// documentation table and the report text.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "core/statistics/design.h"
#include "model/config/train_config.h"

namespace assay {

enum class Equivalence { Bitwise, Math, Statistical, Objective };
// What a verdict is about: the time of a step, of an evaluation, of a step's tokens, each, or of a
// step with its loader: batches taken from the queue and copied to the device while the clock runs.
enum class Unit { TrainStep, Evaluation, Token, PipelineStep };

// What a row's levels are held to before they are timed (model/gates/gates.cpp,
// model/gates/ddp_gates.cpp).
enum class Gate {
  Training,     // losses and weights after several steps
  Scaler,       // the same in fp32, and no step skipped
  EmaSwap,      // evaluation, restored weights and EMA
  Isolation,    // documents do not see each other, nor the future
  SameFunction, // logits and gradients
  Loss,         // of a training step and of an evaluation
  Update,       // weights, moments and average after updates with given gradients
  Copies,       // 16-bit copies of weights after steps, an evaluation and a load
  DeltaRule,    // the rule against its recurrence, and isolation
  Documents,    // isolation, order of tokens, and documents packed against documents alone
  NsaRanges,    // logits and gradients, ranges, isolation
  Gradients,    // of several ranks against one process, and a shared overflow
  Sharding,     // of several ranks: weights, moments and average after updates; a skipped one
  Validation,   // of several ranks against one process, and the same collectives
  Batches,      // tokens, targets and borders of the batches that the loader gives
  Int8,         // linears against fp64, logits and the loss of an evaluation
  Compiled,     // logits, and the loss of an evaluation after a step
  Finite,       // losses of several steps: nothing else is promised
};

struct Level {
  std::string name;
  std::string summary;
  std::function<void(TrainConfig&)> apply; // edits only its own key
  std::string span;   // span or counter that only this level shows; "" when the row has none
  bool wrong = false; // a known bug, shown by its gate's rejection: never part of a cell that does
                      // not name it
  std::set<std::string> keys = {}; // that a matrix gives it; of a row of the table: switched_keys()
  std::string on_cpu = "";         // the level whose code it runs on a CPU; "" when it has its own
};

// "norms = fused", and why.
struct NeedWords {
  NeedWords(const char* words, const char* reason = "") : what(words), why(reason) {}
  std::string text() const { return why.empty() ? what : what + ": " + why; }

  std::string what, why;
};

// What a configuration must have for a row to switch anything in it, or for one of its levels.
struct Need {
  NeedWords words;
  std::function<bool(const TrainConfig&)> met;
  bool of_model = false;  // unmet, the model has no part that the row could make faster
  std::string level = {}; // only this level needs it; "": whatever level
  // Not even `assay train` has the level, or any but the reference, without it; else no cell has.
  bool always = false;
};

std::vector<Need> always(std::vector<Need> needs);

struct Optimization {
  std::string name;
  std::string summary;
  Equivalence equivalence;
  Unit unit;
  // What the preset `tiny` needs besides, so that the row has something to switch, or enough of it:
  // "seq_len=1024 batch_rows=1". A level of a draft matrix is measured with it.
  std::string on_tiny = {};
  std::string on_cuda = {};  // what a GPU needs besides, so that every level runs there
  std::vector<Gate> gates;   // all of them must pass
  std::vector<Level> levels; // levels[0] is the reference
  // Comparisons beyond "each level against the reference": {from, to} level names. With a design,
  // all comparisons.
  std::vector<std::pair<std::string, std::string>> also_compare = {};
  std::string equality;          // what the parity gate proves, in one line
  std::string family = {};       // only its models have what the row switches; "": every family
  bool needs_ranks = false;      // only several ranks have what the row switches
  std::vector<Need> needs = {};  // whatever else
  std::string fast_default = {}; // level of who names none, on a GPU (fast_defaults.h); "": none
  int fast_capability = 0;       // that this level needs of a GPU: 90 is 9.0
  bool hidden = false;           // a test row: not listed, not completed
  std::optional<Design> design = {};          // of a matrix's steps, whose variants are the levels
  std::vector<DesignContrast> contrasts = {}; // of a design, by index of the level
  bool of_table = true; // false: made of a matrix's keys (model/config/key_variants.h)

  const Level* level(std::string_view level_name) const;
};

const Registry<Optimization>& optimizations();

std::set<std::string> differing_keys(const TrainConfig& a, const TrainConfig& b);

// Keys that the row's levels set.
std::set<std::string> switched_keys(const Optimization& row);

bool has_level(const TrainConfig& config, const Level& level);

// True for a need of a level that the configuration has not.
bool meets(const TrainConfig& config, const Optimization& row, const Need& need);

std::string_view to_string(Equivalence value);
std::string_view to_string(Unit value);

} // namespace assay
