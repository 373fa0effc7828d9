// A capture of device work as a CUDA graph that leaves nothing open when it fails.
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <memory>

#include "model/graph/graph_room.h"

namespace assay {

// The graph of what `work` launches, on the room's stream and with the room's memory, ready for
// replays. Where `work` or CUDA fails, the capture is ended, its graph is discarded, the pool takes
// no more allocations, and the first error is thrown on.
std::unique_ptr<at::cuda::CUDAGraph> capture_graph(GraphRoom& room,
                                                   const std::function<void()>& work);

} // namespace assay
