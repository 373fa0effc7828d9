// What linear recurrences over chunks share: the state that enters each chunk, and the gradient of
// the state that leaves it. R = N*H rows of chunks, step-major (ChunkLayout).
#pragma once

#include <ATen/ATen.h>

#include "model/layout/chunk_layout.h"

namespace assay {

// S [R, K, V] that enters each chunk: 0 at a segment's start, then decay * S + update of the chunk
// before. decay broadcasts to [R, K, V], update [R, K, V].
at::Tensor
entering_states(const ChunkLayout& layout, const at::Tensor& decay, const at::Tensor& update);

// Gradient [R, K, V] of the state that leaves each chunk: 0 at a segment's end, else that of the
// state which enters the next one, read + decay * its own. read [R, K, V]: what the outputs of a
// chunk bring to the state that enters it.
at::Tensor
leaving_gradients(const ChunkLayout& layout, const at::Tensor& decay, const at::Tensor& read);

} // namespace assay
