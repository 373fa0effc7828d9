// Runs one unit under a span sink and an operator callback: the proof of which code path ran.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/span.h"
#include "model/config/optimization.h"
#include "model/layout/batch.h"
#include "model/training/trainer.h"

namespace assay {

class ProcessGroup;

struct CodePath {
  std::map<std::string, std::int64_t> spans; // by name: how often opened
  std::map<std::string, std::int64_t>
      counters; // by name: sum of amounts ("copies/bf16_cast" = 0 is kept)
  std::map<std::string, std::int64_t>
      operators; // by operator ("aten::mm"): calls, backward included
};

// `load` (may be empty) is observed as well, after the unit: it takes a batch from the loader.
// Builds a trainer of `config`, runs its warm-up steps unobserved, then one unit of the
// optimization observed: with step_graph = on the step that is captured and replayed. RankChannel:
// collective; a level that is known to wait for ever only rehearses its collectives.
CodePath record_code_path(const Optimization& optimization,
                          const TrainConfig& config,
                          const std::vector<Batch>& batches,
                          const std::shared_ptr<ProcessGroup>& ranks = nullptr,
                          const std::function<void()>& load = {});

// One unit: an optimizer step over config().accumulate of the batches, or an evaluation over all of
// them. Returns the loss.
double run_unit(Trainer& trainer, Unit unit, const std::vector<Batch>& batches);

// The micro-batches of step `index`, taken round robin.
std::vector<Batch>
micro_batches(const std::vector<Batch>& batches, std::int64_t accumulate, std::size_t index);

} // namespace assay
