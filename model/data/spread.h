// Places spread evenly over the text of a split, for an evaluation of a part of it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/data/loader.h"

namespace assay {

// Bytes of a split's text up to the end of each document, as they are stored, in the order of
// epoch 0. Needs a resolved config (seed).
std::vector<double> document_ends(const DataSource& source, const TrainConfig& config, Split split);

// Where `batches` batches begin: systematic sampling, batch i at (i + 1/2) / batches of the split's
// bytes as they are stored, in the order of epoch 0. A place inside a document is the token of the
// same share. Empty where places would be closer to each other than a batch is long: then reading
// from the start reads nearly everything. Tokenizes the documents that it meets. Needs a resolved
// config (seed, seq_len, batch_rows); throws what reading a document throws.
std::vector<DataPosition> spread_positions(const DataSource& source,
                                           const TrainConfig& config,
                                           Split split,
                                           std::int64_t batches);

} // namespace assay
