// Kernel launches and bytes of a step's operations, by which step_cost.cpp adds up a step.
#pragma once

#include <cstdint>

namespace assay::launch_counts {

// Kernels that LibTorch launches on a GPU for the code of model/, forward + backward, counted in
// the traces of docs/results/h200/trace (fp32). The scan of the delta rule launches 3 + 3 a chunk
// step. Casts of a narrower compute type: a weight and an input forward, both gradients backward.
inline constexpr std::int64_t kDeltaLaunches = 58 + 105, kScanLaunches = 3 + 3;
// Of them those of its inputs as operators, of the norm behind the rule with its gate, and of two
// products; the others are the rule's. Fused: of the inputs a kernel each way, the gate's gradient
// and two sums, of the norm a kernel each way and a sum, of the rule its five kernels
// (nine where the device cuts few long chains into pieces, which the plan does not know).
inline constexpr std::int64_t kInputLaunches = 20 + 34, kFusedInputLaunches = 1 + 4;
inline constexpr std::int64_t kGatedNormLaunches = 3 + 6;
inline constexpr std::int64_t kFusedRuleLaunches = 3 + 2;
inline constexpr std::int64_t kLatentLaunches = 26 + 55, kFeedForwardLaunches = 5 + 8;
inline constexpr std::int64_t kFusedGateLaunches = 1 + 1; // beside two products
inline constexpr std::int64_t kSiluLaunches = 1 + 1;      // beside two products, from their code
// Beside two products, from their code; fused with the sum of the bias's gradient.
inline constexpr std::int64_t kGeluLaunches = 1 + 1, kFusedGeluLaunches = 1 + 2;
// Of them those of its inputs as operators, of which two rotations are 7 + 8 each.
inline constexpr std::int64_t kLatentInputLaunches = 18 + 23, kRotaryLaunches = 7 + 8 + 7 + 8;
// From their code (model/layers/attention). Transposed: copies of the operand, its halves and, with
// more than one head, the angles and the result; gradients of the halves are filled and added.
// Complex: a product, and backward the conjugate beside it. Fused: two kernels each way and the sum
// of the norm's gradient.
inline constexpr std::int64_t kTransposeLaunches = 13 + 10 + 12 + 12,
                              kComplexLaunches = 1 + 2 + 1 + 2;
// With them goes all that splits and joins operands and their gradients; what is left beside
// products and attention is the sum of two gradients of x.
inline constexpr std::int64_t kFusedLatentLaunches = 2 + 3 + 1;
// Of them those of attention itself with padded values: fill and copy of v, the kernel, copy of its
// narrower result; fill and copy of that gradient, three kernels, copy of v's gradient. cuDNN: the
// table of documents and the setup of their copies, the kernel; the setup again and three kernels.
// Without padding the memory-efficient kernel: it; the sum of its rows and it.
inline constexpr std::int64_t kPaddedLaunches = 4 + 6, kCudnnLaunches = 1 + 3,
                              kRaggedLaunches = 2 + 1;
inline constexpr std::int64_t kEfficientLaunches = 1 + 2;
// Flash attention of one width; q, k and v are views of one product, whose gradient joins theirs
// (cuDNN writes them joined).
inline constexpr std::int64_t kFlashLaunches = 1 + 3, kJoinLaunches = 1;
// Sparse attention in 16 bits beside the products of its layer, and its dense twin: counted in the
// traces of docs/results/h200/launch-counts-small, where cuBLAS splits no sum of a layer.
inline constexpr std::int64_t kSparseLaunches = 151, kFusedSparseLaunches = 35;
inline constexpr std::int64_t kRepeatedKeysLaunches = 52, kSharedKeysLaunches = 50;
// A norm, fused or not: a kernel, and backward another and the sum of its weight's gradient. The
// sum of the stream before it, where it is not fused.
inline constexpr std::int64_t kNormLaunches = 1 + 2, kSumLaunches = 1 + 1;
inline constexpr std::int64_t kProductLaunches = 1 + 2; // of a linear that nothing else counts
// A product adds its bias itself, in FP8 another kernel does; the gradient is a sum over tokens, of
// kept weights in bf16 two kernels.
inline constexpr std::int64_t kBiasLaunches = 1, kKeptBiasLaunches = 2;
// cuBLAS splits the sum over tokens of a weight's gradient in 16 bits: a fill and a last sum beside
// the product. So it does with a gradient of a chunk of the head. Which sums it splits depends on
// shapes and library: docs/results/README.md, "h200/launch-counts".
inline constexpr std::int64_t kSplitLaunches = 2;
// A gather, and its gradient: a fill and a kernel for few tokens, else tokens are sorted and
// segments of them added up (LibTorch's embedding_dense_backward).
inline constexpr std::int64_t kFewTokens = 3072, kFewEmbeddingLaunches = 1 + 2,
                              kEmbeddingLaunches = 1 + 30;
inline constexpr std::int64_t kStreamCasts =
    1 + 1; // of the embedding, where the stream is narrower
inline constexpr std::int64_t kHeadLaunches = 2 + 4, kLossLaunches = 3 + 6;
inline constexpr std::int64_t kCastLaunches = 1 + 1; // of a weight, or of an input
// The loss in chunks, from its code (model/layers/loss_head.cpp): a chunk in 16 bits is three
// products, a kernel and a split, in fp32 tensor operations; once count, factor, mean and the check
// of the gradient that comes; casts of weight, input and its gradient.
inline constexpr std::int64_t kChunkLaunches = 4 + kSplitLaunches, kPlainChunkLaunches = 24,
                              kChunkedLossLaunches = 11;
// Update: one pass over all parameters is a launch for every kPassElements of them (LibTorch's
// multi-tensor kernels: 320 blocks of 65,536 elements); norm, clip and AdamW on two groups.
inline constexpr std::int64_t kPassElements = std::int64_t{320} * 65536, kUpdatePasses = 4;
inline constexpr std::int64_t kUpdateLaunches = 10;
inline constexpr double kClipBytes = 12; // read for the norm, read and write to scale
inline constexpr double kAdamWBytes =
    28; // read weight, gradient and moments, write all but the gradient
inline constexpr double kEmaBytes = 12;     // read weight and average, write the average
inline constexpr double kCopyBytes = 4 + 2; // read a weight, write its 16-bit copy
// One pass: read the gradient for the norm; read weight, gradient and moments, write all but the
// gradient; read and write the average; write a copy. Norm, factors, update, and the learning rate.
inline constexpr double kOnePassBytes = 4 + 28, kOnePassEmaBytes = 8, kOnePassCopyBytes = 2;
inline constexpr std::int64_t kOnePassLaunches = 3 + 1;
// AdamW in operators: decay, both means, root, division, product and sum.
inline constexpr double kOperatorBytes = 96;

// FP8: a cast of x or dy is a kernel for the largest value and one for both orders. The first is
// saved where fused norms or SwiGLU wrote the tensor, and with delayed scales everywhere. A fill
// serves many casts (model/layers/fp8/fp8_linear.cpp); delayed scales take a kernel a step. Weights
// are cast together once an optimizer step: a fill and two kernels.
inline constexpr std::int64_t kFp8CastsPerFill = 256, kFp8WeightLaunches = 3;
inline constexpr std::int64_t kFp8Multiple = 16;

} // namespace assay::launch_counts
