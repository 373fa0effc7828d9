// What a batch brings to the GPU: the same layouts as on a CPU, however its tables are copied.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda_check.h"
#include "kernels/spin.h"
#include "model/layout/chunk_layout.h"
#include "model/layout/nsa_layout.h"
#include "model/layout/positions.h"
#include "model/layout/segments.h"
#include "model/layout/upload.h"
#include "tests/model/event_counts.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace layout_gpu_test {

std::vector<at::Tensor> chunk_tables(const Segments& s) {
  return {s.cu,
          s.chunks->gather,
          s.chunks->scatter,
          s.chunks->spans,
          s.chunks->segment_chunks,
          s.chunks->position,
          s.chunks->taps,
          s.rotary->cos,
          s.rotary->sin,
          at::view_as_real(s.rotary->turn)};
}

std::vector<at::Tensor> block_tables(const Segments& s) {
  const NsaLayout& layout = *s.sparse;
  return {layout.document_start,
          layout.position,
          layout.token_block,
          layout.compressed.first,
          layout.compressed.end,
          layout.selection.first,
          layout.window.end,
          layout.compressed_documents.cu,
          layout.strided_token,
          layout.strided_place,
          layout.block_tokens,
          layout.token_blocks,
          layout.overlap};
}

std::vector<at::Tensor> tables(const Batch& batch) {
  std::vector<at::Tensor> all{batch.tokens, batch.targets};
  for (const Segments* s : {&batch.documents, &batch.rows})
    for (const at::Tensor& table : s->sparse ? block_tables(*s) : chunk_tables(*s))
      all.push_back(table);
  return all;
}

struct LayoutGpu : testing::TestWithParam<const char*> { // a family
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    const bool sparse = GetParam() == std::string("nsa");
    config = sparse ? testing_model::small_nsa() : testing_model::small_config();
  }
  Batch batch() const {
    const at::Tensor tokens = at::arange(config.batch_rows * config.seq_len).remainder(61);
    const at::Tensor rows = tokens.view({config.batch_rows, config.seq_len});
    return make_batch(rows, rows.clone(), {0, 7, 30, 31, 80});
  }
  Batch prepared(Device device, BatchCopy copy = BatchCopy::Pinned) {
    config.device = device;
    config.batch_copy = copy;
    Batch result = batch();
    prepare(result, config);
    return result;
  }
  TrainConfig config;
};

TEST_P(LayoutGpu, TablesAreThoseOfACpuHoweverTheyAreCopied) {
  const std::vector<at::Tensor> expected = tables(prepared(Device::Cpu));
  for (const BatchCopy copy : {BatchCopy::Pageable, BatchCopy::Pinned, BatchCopy::OwnStream}) {
    const std::vector<at::Tensor> seen = tables(prepared(Device::Cuda, copy));
    ASSERT_EQ(seen.size(), expected.size());
    for (std::size_t i = 0; i < seen.size(); ++i)
      EXPECT_TRUE(at::equal(seen[i].cpu(), expected[i]))
          << static_cast<int>(copy) << ", table " << i;
  }
}

TEST_P(LayoutGpu, ALevelOfBatchCopyShowsItsCounter) {
  for (const auto& [copy, counter] : {std::pair{BatchCopy::Pageable, "data/copy_pageable"},
                                      std::pair{BatchCopy::Pinned, "data/copy_pinned"},
                                      std::pair{BatchCopy::OwnStream, "data/copy_own_stream"}}) {
    EventCounts counts;
    const SpanSinkGuard guard(counts);
    (void)prepared(Device::Cuda, copy);
    EXPECT_EQ(counts.seen, (std::map<std::string, std::int64_t>{{counter, 1}}));
  }
}

// A kernel of 300 ms runs: from pinned memory, the host goes on behind it.
TEST_P(LayoutGpu, AStepThatRunsKeepsTheHostFromNoPinnedCopy) {
  (void)prepared(Device::Cuda); // buffers and angles are there
  for (const BatchCopy copy : {BatchCopy::Pageable, BatchCopy::Pinned, BatchCopy::OwnStream}) {
    c10::cuda::device_synchronize();
    launch_spin(300'000'000, c10::cuda::getCurrentCUDAStream().stream());
    ASSAY_CUDA(cudaGetLastError());
    const auto begin = std::chrono::steady_clock::now();
    (void)prepared(Device::Cuda, copy);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(seconds.count() < 0.15, copy != BatchCopy::Pageable) << seconds.count();
    c10::cuda::device_synchronize();
  }
}

// On its own stream a batch is on the device before that kernel ends; what reads it on the step's
// stream comes behind both.
TEST_P(LayoutGpu, ACopyOnItsOwnStreamIsDoneBesideTheStep) {
  const at::Tensor host = at::arange(1 << 16), zeros = at::zeros_like(host);
  const auto device = torch_device(Device::Cuda);
  const c10::cuda::CUDAStream other =
      c10::cuda::getStreamFromPool(); // does not wait for the step's
  for (const BatchCopy copy : {BatchCopy::Pinned, BatchCopy::OwnStream}) {
    // Afterwards the memory that is needed is there, since allocating waits, and holds zeros.
    for (int i = 0; i < 2; ++i) {
      const at::Tensor copied = upload(zeros, device, copy);
      c10::cuda::device_synchronize();
      const c10::cuda::CUDAStreamGuard guard(other);
      (void)copied.sum();
    }
    c10::cuda::device_synchronize();
    const c10::cuda::CUDAStream step = c10::cuda::getCurrentCUDAStream();
    launch_spin(300'000'000, step.stream());
    const at::Tensor copied = upload(host, device, copy);
    at::Tensor sum;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    {
      const c10::cuda::CUDAStreamGuard guard(other);
      sum = copied.sum();
      other.synchronize();
    }
    EXPECT_FALSE(step.query()) << "the kernel still runs";
    EXPECT_EQ(sum.cpu().item<std::int64_t>() == host.sum().item<std::int64_t>(),
              copy == BatchCopy::OwnStream);
    c10::cuda::device_synchronize();
    EXPECT_TRUE(at::equal(copied.cpu(), host));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LayoutGpu, testing::Values("deltanet_mla", "nsa"));

} // namespace layout_gpu_test
} // namespace assay
