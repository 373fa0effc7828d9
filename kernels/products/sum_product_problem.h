// What the kernel of sum_product.h gets from its host.
#pragma once

#include <cuda.h>

#include "kernels/products/sum_product.h"

namespace assay::sum_product {

constexpr int kRows = 128, kColumns = 192, kInner = 64; // of a tile, and of a step of it
constexpr int kBox = 64;                                // rows or columns of a copy
constexpr int kOutBox = 32, kOutRows = 64;              // columns and rows of one to the result

struct Maps {
  CUtensorMap left, right; // boxes of kBox by kInner
  CUtensorMap out;         // of kOutBox by kOutRows
};

struct Tiles {
  int columns, count, steps; // tiles beside each other, tiles, steps of a tile
};

// On the current device; an error is left for cudaGetLastError().
void launch_kernel(bool add, const Maps& maps, const Tiles& tiles, int blocks, cudaStream_t stream);

} // namespace assay::sum_product
