#include "kernels/update/update.h"

#include "kernels/update/update.cuh"

namespace assay::update {
namespace {

// The parameters of one launch.
struct Group {
  int first, end; // parameters
  int first_block, end_block;
};

template <class Body> void for_each_group(const Pass& p, Body body) {
  for (int first = 0; first < p.tensor_count; first += kMostGradients) {
    const int left = p.tensor_count - first,
              end = first + (left < kMostGradients ? left : kMostGradients);
    const Group group{first, end, p.block_begin[first], p.block_begin[end]};
    if (group.end_block > group.first_block) body(group);
  }
}

void set(Gradients& gradients, const Pass& p, const Group& group) {
  for (int i = group.first; i < group.end; ++i) gradients.at[i - group.first] = p.gradients[i];
}

unsigned blocks_of(const Group& group, int parts) {
  return static_cast<unsigned>((group.end_block - group.first_block) * parts);
}

} // namespace

void launch_update(const Pass& p, cudaStream_t stream) {
  for_each_group(p, [&](const Group& group) {
    Squares squares{p.tensors,
                    p.blocks + group.first_block,
                    p.partial + group.first_block,
                    p.scale,
                    group.first,
                    {}};
    set(squares.gradients, p, group);
    square_sums<<<blocks_of(group, 1), kThreads, 0, stream>>>(squares);
  });
  factors<<<1, kFactorThreads, 0, stream>>>({p.partial,
                                             p.block_begin[p.tensor_count],
                                             p.lr,
                                             p.scale,
                                             p.steps,
                                             p.norm,
                                             p.found_inf,
                                             p.factors,
                                             p.rule});
  for_each_group(p, [&](const Group& group) {
    Update update{p.tensors,
                  p.blocks + group.first_block,
                  p.factors,
                  group.first,
                  p.copy_type,
                  static_cast<float>(1 - p.rule.beta1),
                  static_cast<float>(1 - p.rule.beta2),
                  static_cast<float>(p.rule.eps),
                  static_cast<float>(p.rule.average),
                  {}};
    set(update.gradients, p, group);
    update_weights<<<blocks_of(group, kParts), kThreads, 0, stream>>>(update);
  });
}

} // namespace assay::update
