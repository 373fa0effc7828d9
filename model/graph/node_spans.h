// NodeSpans: which spans were open when each node of a CUDA graph was captured. A replay shows the
// host in none of them, so a node's place in the graph is all that relates its time to a stage.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/span.h"

namespace assay {

// Nodes that follow one another with the same open spans.
struct NodeRun {
  std::string path; // "forward>gated_deltanet>delta_rule/fused"; "": none
  std::int64_t nodes = 0;

  bool operator==(const NodeRun&) const = default;
};

// While it lives it gets the spans of the thread that made it, and hands all spans and counts on to
// the sink before it. Other threads may open spans meanwhile, none that outlives it.
class NodeSpans final : public SpanSink {
public:
  // `nodes`: how many the graph has now; the graph is a chain, so they only grow at its end.
  explicit NodeSpans(std::function<std::int64_t()> nodes);
  ~NodeSpans() override;

  void begin(const char* name) override;
  void end(const char* name) override;
  void count(const char* name, std::int64_t amount) override;

  std::vector<NodeRun> take(); // all nodes so far, in order

private:
  void note(); // the nodes since the last note
  bool own_thread() const { return std::this_thread::get_id() == thread_; }

  std::function<std::int64_t()> nodes_;
  std::thread::id thread_;
  SpanSink* outer_;
  std::vector<const char*> open_;
  std::int64_t noted_ = 0;
  std::vector<NodeRun> runs_;
};

// A list per graph, [["forward>latent_attention", 12], …]: JSON, as a trace file keeps it.
std::string to_text(const std::vector<std::vector<NodeRun>>& graphs);

} // namespace assay
