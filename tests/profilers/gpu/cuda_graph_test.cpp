// A CUDA graph on a real GPU: every node of every replay is a record of its own, linked to the
// launch of the graph.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include <set>

#include "core/sqlite/database.h"
#include "core/trace/trace_file.h"
#include "profilers/trace/trace_session.h"
#include "tests/scratch.h"

namespace assay {
namespace cuda_graph_test {

constexpr int kNodes = 400, kVisits = 5;

TEST(CudaGraph, EveryNodeOfEveryReplayIsRecorded) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const test::Scratch scratch;
  TraceOptions options;
  options.paths = {scratch / "graph.sqlite"};
  options.cuda = true; // CUPTI starts before the first CUDA context
  auto session = value_or_throw(TraceSession::start(options));

  const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
  at::Tensor x = at::zeros({1 << 16}, at::TensorOptions().device(at::kCUDA));
  x.add_(0.0); // loads the kernel outside of the capture
  c10::cuda::device_synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  for (int i = 0; i < kNodes; ++i) x.add_(1.0);
  graph.capture_end();

  const SpanSinkGuard guard(*session);
  for (int visit = 0; visit < kVisits; ++visit) {
    session->begin_visit(0, visit, false);
    const std::int64_t begin = trace_now();
    {
      const Span span("step");
      graph.replay();
      c10::cuda::device_synchronize();
    }
    session->step(begin, trace_now(), true, 1);
    session->end_visit();
  }
  EXPECT_EQ(value_or_throw(session->finish()).lost, 0);
  ASSERT_EQ(x[0].item<float>(), static_cast<float>(kNodes * kVisits));

  const Trace trace = value_or_throw(read_trace(options.paths[0]));
  for (const AuditRow& row : trace.audit)
    EXPECT_TRUE(row.passed) << row.check << " is " << row.value << ": " << row.detail;
  // One row a launch: its kernels, their distinct nodes, and the call that launched them.
  const Database file(options.paths[0], Database::Mode::ReadOnly);
  Statement rows =
      file.prepare("SELECT COUNT(*), COUNT(DISTINCT k.graphNodeId), MIN(k.graphNodeId), s.value "
                   "FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
                   "ON r.correlationId = k.correlationId LEFT JOIN StringIds s ON s.id = r.nameId "
                   "GROUP BY k.correlationId");
  int launches = 0;
  std::set<std::int64_t> first_nodes;
  for (; rows.step(); ++launches) {
    EXPECT_EQ(rows.integer(0), kNodes);
    EXPECT_EQ(rows.integer(1), kNodes);
    EXPECT_NE(rows.integer(2), 0);
    EXPECT_EQ(rows.text(3), "cudaGraphLaunch");
    first_nodes.insert(rows.integer(2));
  }
  EXPECT_EQ(launches, kVisits);
  EXPECT_EQ(first_nodes.size(), 1u); // the same graph each time
}

} // namespace cuda_graph_test
} // namespace assay
