#include "model/graph/node_spans.h"

#include <fmt/ranges.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

namespace assay {

NodeSpans::NodeSpans(std::function<std::int64_t()> nodes)
    : nodes_(std::move(nodes)), thread_(std::this_thread::get_id()),
      outer_(detail::span_sink.exchange(this, std::memory_order_acq_rel)) {}

NodeSpans::~NodeSpans() {
  detail::span_sink.store(outer_, std::memory_order_release);
}

void NodeSpans::note() {
  const std::int64_t now = nodes_();
  if (now == noted_) return;
  const std::string path = fmt::format("{}", fmt::join(open_, ">"));
  if (!runs_.empty() && runs_.back().path == path)
    runs_.back().nodes += now - noted_;
  else
    runs_.push_back({path, now - noted_});
  noted_ = now;
}

void NodeSpans::begin(const char* name) {
  if (own_thread()) {
    note();
    open_.push_back(name);
  }
  if (outer_ != nullptr) outer_->begin(name);
}

void NodeSpans::end(const char* name) {
  if (own_thread()) {
    if (std::uncaught_exceptions() == 0) note(); // which may throw; the capture has failed anyway
    open_.pop_back();
  }
  if (outer_ != nullptr) outer_->end(name);
}

void NodeSpans::count(const char* name, std::int64_t amount) {
  if (outer_ != nullptr) outer_->count(name, amount);
}

std::vector<NodeRun> NodeSpans::take() {
  note();
  return std::move(runs_);
}

std::string to_text(const std::vector<std::vector<NodeRun>>& graphs) {
  nlohmann::json all = nlohmann::json::array();
  for (const std::vector<NodeRun>& runs : graphs) {
    nlohmann::json nodes = nlohmann::json::array();
    for (const NodeRun& run : runs) nodes.push_back({run.path, run.nodes});
    all.push_back(std::move(nodes));
  }
  return all.dump();
}

} // namespace assay
