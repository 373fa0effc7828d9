// TrainRow: a row of the log that `assay train` writes (docs/data.md), as another process reads it.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace assay {

inline constexpr const char* kTrainLogName = "train.csv";

using TrainRow = std::map<std::string, double>; // by the header's names; what is empty is left out

// The last whole row of the file; nothing where it has none, or cannot be read.
std::optional<TrainRow> last_train_row(const std::string& path);

// "step 120, loss 2.314, perplexity 10.1, 1234 tokens/s, 3 % of the time waits for data"
std::string train_row_text(const TrainRow& row);

} // namespace assay
