// Which parts of another program's trace are training steps, and which stages they have.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "core/trace/trace.h"
#include "experiments/import/imported_rows.h"

namespace assay {

struct FoundSteps {
  std::vector<StepRow> steps; // in order; each a round of its own
  std::string how;            // "annotations ProfilerStep#N"
};

// `name`: of the spans that are steps ("train_step", also with a number behind it); "": the first
// of these that the trace has:
// - Kineto's annotations ProfilerStep#N;
// - spans of one name, numbers behind it apart, at least three of them on one thread and one after
//   the other, that cover most of the trace;
// - a sequence of kernels on one stream that repeats;
// - else the whole trace is one step.
// Fails where no span has the name.
Result<FoundSteps> find_steps(const ImportedRows& rows, const std::string& name);

// Spans of the domain "assay" named after stages: optimizer (Optimizer.step and what follows a
// step's last backward pass, where there is one), data_wait (a data loader's next), backward
// (operators that autograd's engine calls) and forward (other operators), told apart within each
// step. Nothing, where the trace has spans of these names already, or no operators. Returns what
// was done, in words.
std::string add_stages(ImportedRows& rows, const std::vector<StepRow>& steps);

} // namespace assay
