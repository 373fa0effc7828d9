// What `step_graph = on` needs of a configuration, and the sizes of its graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/config/optimization.h"

namespace assay {

// Everything that a capture cannot contain is refused here by name: forms that read sizes or
// values on the host, waits that the host chooses, collectives.
std::vector<Need> step_graph_needs();

// Documents that a graph has room for: the smallest of 64, 96, 128, 192 and 256 that `documents`
// fit; nothing above. What a graph does for room that a batch leaves empty costs little.
std::optional<std::int64_t> document_room(std::int64_t documents);

// Of the graph that a batch of `documents` asks for: twice as many where a graph has that, else the
// largest; nothing for a batch that fits none. Batches of one corpus differ in their documents, and
// one that needs another graph runs steps without a graph.
std::optional<std::int64_t> graph_room(std::int64_t documents);

} // namespace assay
