// Rows of optimizations(). Test rows, which plant what a report must find. All are hidden.
#include "model/config/optimizations/rows.h"

namespace assay {

std::vector<Optimization> planted_rows() {
  return {
      {.name = "planted_slowdown",
       .summary = "test row: a busy wait of 5 % of the running median step",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::TrainStep,
       .gates = {Gate::Training},
       .levels = {{"off", "no wait", [](TrainConfig& c) { c.planted_spin = 0; }, ""},
                  {"spin5",
                   "busy wait of 5 % after every step",
                   [](TrainConfig& c) { c.planted_spin = 0.05; },
                   "planted/spin"}},
       .equality = "loss and weights bit-equal after several steps",
       .hidden = true},
      {.name = "planted_calibration",
       .summary = "test row of `make calibrate`: a busy wait of nothing, and of 2 % of the step",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::TrainStep,
       .gates = {Gate::Training},
       .levels = {{"off", "no wait", [](TrainConfig& c) { c.planted_spin = 0; }, ""},
                  {"spin0", // an A/A comparison that gets a verdict
                   "busy wait of a billionth after every step",
                   [](TrainConfig& c) { c.planted_spin = 1e-9; },
                   "planted/spin"},
                  {"spin2",
                   "busy wait of 2 % after every step",
                   [](TrainConfig& c) { c.planted_spin = 0.02; },
                   "planted/spin"}},
       .equality = "loss and weights bit-equal after several steps",
       .hidden = true},
      {.name = "planted_stages",
       .summary = "test row: 1 ms more in one stage of the step",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::TrainStep,
       .gates = {Gate::Training},
       .levels =
           {{"off", "no wait", [](TrainConfig& c) { c.planted_wait = PlantedWait::None; }, ""},
            {"forward",
             "1 ms more in the forward pass",
             [](TrainConfig& c) { c.planted_wait = PlantedWait::Forward; },
             "planted/forward"},
            {"backward",
             "1 ms more in the backward pass",
             [](TrainConfig& c) { c.planted_wait = PlantedWait::Backward; },
             "planted/backward"},
            {"optimizer",
             "1 ms more in the optimizer",
             [](TrainConfig& c) { c.planted_wait = PlantedWait::Optimizer; },
             "planted/optimizer"},
            {"ema",
             "1 ms more in the EMA update",
             [](TrainConfig& c) { c.planted_wait = PlantedWait::Ema; },
             "ema/planted"},
            {"host",
             "the host sleeps 1 ms between two stages",
             [](TrainConfig& c) { c.planted_wait = PlantedWait::Host; },
             "planted/host"}},
       .equality = "loss and weights bit-equal after several steps",
       .needs = {{"for level ema update_pass = per_parameter or foreach: one pass has no stage of "
                  "its own for the average",
                  [](const TrainConfig& c) {
                    return c.planted_wait != PlantedWait::Ema ||
                           c.update_pass != UpdatePass::OnePass;
                  }}},
       .hidden = true},
      {.name = "planted_loader",
       .summary = "test row: the loader sleeps 2 ms for each document",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::PipelineStep,
       .gates = {Gate::Batches},
       .levels =
           {{"off", "no sleep", [](TrainConfig& c) { c.planted_document_ms = 0; }, "data/no_sleep"},
            {"slow",
             "2 ms a document",
             [](TrainConfig& c) { c.planted_document_ms = 2; },
             "data/planted_sleep"}},
       .equality = "tokens, targets and borders of the batches equal",
       .hidden = true},
  };
}

} // namespace assay
