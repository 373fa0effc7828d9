// Comparisons of training keys that no row of the table switches: what [cell.variants] of a matrix
// asks for (docs/matrix.md). Such a row is made for one plan or one launch.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/result.h"
#include "model/config/optimization.h"

namespace assay {

// Nothing is promised between variants but that their losses are finite; whether training suffers
// is for [quality] to show. `expect`: statistical or objective. Equal functions are compared as
// rows of the table, whose gates know what their keys do.
Optimization
key_row(std::string name, Equivalence expect, Unit unit, std::vector<Level> variants = {});

// "statistical" or "objective"; a unit by its name: "token".
Result<Equivalence> equivalence_named(const std::string& name);
Result<Unit> unit_named(const std::string& name);

// Of `keys`, those that have one value in a process, whatever runs in it.
std::set<std::string> process_keys(const std::set<std::string>& keys);
// Of those, the ones that no comparison can vary: they decide what is trained on, and where.
std::set<std::string> same_keys(const std::set<std::string>& keys);
// Of `keys`, those of the loader, which only unit "pipeline_step" times. A variant of it has a
// loader of its own, so that they differ within a process.
std::set<std::string> loader_keys(const std::set<std::string>& keys);
// Of `keys`, those that decide which tokens a step or an evaluation takes.
std::set<std::string> batch_keys(const std::set<std::string>& keys);
// Of `keys`, those that decide a model's parameters or what its layers need of a batch.
std::set<std::string> model_keys(const std::set<std::string>& keys);

// Tokens that an optimizer step trains on, of all ranks. `config` is resolved.
std::int64_t step_tokens(const TrainConfig& config);

} // namespace assay
