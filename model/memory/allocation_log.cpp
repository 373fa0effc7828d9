#include "model/memory/allocation_log.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string_view>

namespace assay {

namespace {

constexpr std::string_view kForward = "forward", kBackward = "backward", kUpdate = "optimizer",
                           kEvaluate = "evaluate", kHead = "head", kFeedForward = "feed_forward",
                           kRecompute = "recompute/again", kRankBuffers = "ranks/buffers",
                           kExposed = "exposed_communication";

// Spans around those of the model's modules.
bool is_outer(std::string_view span) {
  return span == "step" || span == kRankBuffers || span == kExposed || span == kForward ||
         span == kEvaluate || span.starts_with("validation_ranks/");
}

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// At most kMostPoints, with the lowest and the highest of each stretch of time.
void thin_out(MemoryCurve& curve) {
  const std::size_t count = curve.ns.size();
  constexpr std::size_t kStretches = MemoryCurve::kMostPoints / 2;
  if (count <= MemoryCurve::kMostPoints) return;
  MemoryCurve thin{{}, {}, std::move(curve.stages)};
  const double length = static_cast<double>(curve.ns.back() + 1) / kStretches;
  for (std::size_t i = 0; i < count;) {
    const auto stretch = std::floor(static_cast<double>(curve.ns[i]) / length);
    std::size_t low = i, high = i;
    for (; i < count && std::floor(static_cast<double>(curve.ns[i]) / length) == stretch; ++i) {
      if (curve.bytes[i] < curve.bytes[low]) low = i;
      if (curve.bytes[i] > curve.bytes[high]) high = i;
    }
    for (const std::size_t kept : std::set{low, high}) {
      thin.ns.push_back(curve.ns[kept]);
      thin.bytes.push_back(curve.bytes[kept]);
    }
  }
  curve = std::move(thin);
}

const void* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().data() : nullptr;
}

constexpr std::string_view kLayers = "layers.";

// Of a tensor that lasts, by its name in Trainer::lasting_tensors(): its phase, and the parameter.
std::pair<std::string, std::string> owner(const std::string& name) {
  constexpr std::pair<std::string_view, const char*> kOwners[] = {
      {"model.", "weights"},
      {"weights16.", "weights16"},
      {"optimizer.exp_avg_sq.", "optimizer"},
      {"optimizer.exp_avg.", "optimizer"},
      {"optimizer.momentum.", "optimizer"},
      {"ema.", "ema"}};
  for (const auto& [prefix, phase] : kOwners)
    if (name.starts_with(prefix)) return {phase, name.substr(prefix.size())};
  return {"other", name.substr(0, name.find('.'))};
}

} // namespace

void AllocationLog::begin_at(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  earlier_bytes_ = bytes;
}

void AllocationLog::watch(const std::string& name, const at::Tensor& parameter) {
  const std::lock_guard lock(mutex_);
  parameters_.emplace_back(name, parameter);
}

void AllocationLog::allocated(const void* address, std::int64_t bytes, bool captured) {
  const std::lock_guard lock(mutex_);
  tick();
  if (bytes >= 0) {
    if (std::this_thread::get_id() == thread_) in_module_.push_back(all_.size());
    live_[address] = all_.size();
    all_.push_back({.address = address,
                    .bytes = bytes,
                    .origin = origin(),
                    .born = clock_,
                    .captured = captured});
    return;
  }
  const auto found = live_.find(address);
  if (found == live_.end()) { // older than the log
    earlier_freed_.emplace_back(clock_, -bytes);
    return;
  }
  all_[found->second].died = clock_;
  live_.erase(found);
}

void AllocationLog::restart() {
  const std::lock_guard lock(mutex_);
  restarted_ = clock_;
}

// The first of the open spans below the stages of a step; "norms" of "norms/fused", whose slash
// names a form. "" outside of a module.
std::string AllocationLog::module_span() const {
  const auto first = std::ranges::find_if_not(open_, is_outer);
  if (first == open_.end()) return "";
  const std::string_view span = *first;
  return std::string(span.substr(0, span.find('/')));
}

std::string AllocationLog::module() const {
  std::string name = module_span();
  if (name == "loss_head") name = kHead;
  if (layers_done_ >= layers_ || name == kHead)
    return name.empty() || name == "norms" ? std::string(kHead) : name;
  if (name == "planted") return name;
  if (name.empty() && layers_done_ == 0 && !seen_module_) return "embedding";
  return "layers." + std::to_string(layers_done_) + "." + (name.empty() ? "residual" : name);
}

// A node of autograd has the number that it got in the forward pass.
std::string AllocationLog::module_of_backward() const {
  const auto node = torch::autograd::get_current_node();
  if (!node) return "";
  const auto after = std::upper_bound(marks_.begin(),
                                      marks_.end(),
                                      node->sequence_nr(),
                                      [](auto number, auto& mark) { return number < mark.first; });
  return after == marks_.begin() || after == marks_.end() ? "" : std::prev(after)->second;
}

bool AllocationLog::is_open(std::string_view span) const {
  return std::ranges::find(open_, span) != open_.end();
}

AllocationLog::Origin AllocationLog::origin() const {
  if (is_open(kRankBuffers)) return {"ranks", ""};
  if (is_open(kForward)) return {"forward", module()};
  if (is_open(kRecompute)) return {"backward", "recompute"};
  if (is_open(kBackward)) return {"backward", module_of_backward()};
  if (is_open(kUpdate)) return {"update", ""};
  if (!is_open(kEvaluate)) return {"other", ""};
  if (module_span() == "ema") return {"ema_swap", ""};
  return {"evaluation", module()};
}

// From here on autograd's nodes belong to the module of the open spans.
void AllocationLog::mark() {
  if (is_open(kForward)) marks_.emplace_back(at::sequence_number::peek(), module());
}

void AllocationLog::tick() {
  ++clock_;
  tick_ns_.push_back(now_ns());
}

void AllocationLog::close_module() {
  tick();
  for (const std::size_t i : in_module_) all_[i].module_end = clock_;
  in_module_.clear();
}

// "layers.3.delta.in_proj" -> "layers.3.gated_deltanet", as its span is called; "embedding" as it
// is.
std::string AllocationLog::module_of_parameter(const std::string& name) const {
  if (!name.starts_with(kLayers))
    return name.substr(0, name.find('.')).find("norm") == std::string::npos ? name : "head";
  const std::size_t dot = name.find('.', kLayers.size());
  const std::string layer = name.substr(0, dot), rest = name.substr(dot + 1);
  if (rest.find('.') == std::string::npos)
    return layer + (rest.find("norm") == std::string::npos ? ".feed_forward" : ".norms");
  const auto mixer = mixers_.find(layer);
  return layer + "." + (mixer == mixers_.end() ? rest.substr(0, rest.find('.')) : mixer->second);
}

// The parameters' gradients are complete before the update begins.
void AllocationLog::find_gradients() {
  for (const auto& [name, parameter] : parameters_) {
    const auto found = live_.find(storage_of(parameter.grad()));
    if (found != live_.end()) all_[found->second].origin = {"gradients", module_of_parameter(name)};
  }
}

void AllocationLog::start_layers() {
  close_module();
  layers_done_ = 0;
  seen_module_ = false;
}

void AllocationLog::begin(const char* name) {
  if (std::this_thread::get_id() != thread_) return;
  const std::lock_guard lock(mutex_);
  if (name == kForward || name == kEvaluate) start_layers();
  if (name == kForward) marks_.clear();
  if (name == kUpdate) find_gradients();
  open_.push_back(name);
  if (open_.size() <= 2)
    outer_open_.push_back({name, open_.size() - 1, clock_, clock_, now_ns(), 0});
  if (const std::string span = module_span(); !span.empty() && span != "planted") {
    seen_module_ = true;
    const bool in_model = is_open(kForward) || is_open(kEvaluate);
    if (in_model && span != "norms" && span != kFeedForward && layers_done_ < layers_)
      mixers_.try_emplace(std::string(kLayers) + std::to_string(layers_done_), span);
  }
  mark();
}

void AllocationLog::end(const char* name) {
  if (std::this_thread::get_id() != thread_) return;
  const std::lock_guard lock(mutex_);
  open_.pop_back();
  if (open_.size() < outer_open_.size()) {
    outer_.push_back(outer_open_.back());
    outer_open_.pop_back();
    outer_.back().to = clock_;
    outer_.back().to_ns = now_ns();
  }
  if (module_span().empty()) close_module();
  if (name == kFeedForward && !is_open(kFeedForward)) ++layers_done_; // one may hold several
  if (name == kHead && is_open(kEvaluate)) start_layers();
  mark();
}

// Of allocations in a graph's memory, or of the others.
std::map<std::size_t, std::int64_t> AllocationLog::changes(bool captured) const {
  std::map<std::size_t, std::int64_t> by_tick;
  for (const Allocation& one : all_) {
    if (one.captured != captured) continue;
    by_tick[one.born] += one.bytes;
    if (one.died != kNever) by_tick[one.died] -= one.bytes;
  }
  if (!captured)
    for (const auto& [clock, bytes] : earlier_freed_) by_tick[clock] -= bytes;
  return by_tick;
}

// The highest moment from the tick `from` on.
AllocationLog::Moment AllocationLog::highest(bool captured, std::size_t from) const {
  std::int64_t now = captured ? 0 : earlier_bytes_;
  Moment best{from, now};
  for (const auto& [clock, change] : changes(captured)) {
    now += change;
    if (clock <= from) best.bytes = now;
    if (clock > from && now > best.bytes) best = {clock, now};
  }
  return best;
}

MemoryCurve AllocationLog::curve(std::int64_t graph_bytes) const {
  const std::lock_guard lock(mutex_);
  const bool captured = graph_bytes > 0;
  const Moment top = captured ? highest(true, 0) : highest(false, restarted_);
  const auto step = std::ranges::find_if(outer_, [&](const OuterSpan& span) {
    return span.depth == 0 && span.from < top.clock && top.clock <= span.to;
  });
  if (step == outer_.end()) return {};
  // What is in use beside the graph, and the rest of its memory.
  std::int64_t now =
      captured ? highest(false, restarted_).bytes + graph_bytes - top.bytes : earlier_bytes_;
  MemoryCurve curve{{0}, {now}, {}};
  for (const auto& [clock, change] : changes(captured)) {
    if (clock > step->to) break;
    now += change;
    if (clock <= step->from) {
      curve.bytes.front() = now;
      continue;
    }
    curve.ns.push_back(tick_ns_[clock - 1] - step->from_ns);
    curve.bytes.push_back(now);
  }
  for (const OuterSpan& span : outer_)
    if (span.depth == 1 && span.from >= step->from && span.to <= step->to)
      curve.stages.push_back({span.name, span.from_ns - step->from_ns, span.to_ns - step->from_ns});
  thin_out(curve);
  return curve;
}

std::string AllocationLog::highest_in(std::int64_t graph_bytes) const {
  const std::lock_guard lock(mutex_);
  const Moment moment = graph_bytes > 0 ? highest(true, 0) : highest(false, restarted_);
  for (const Allocation& one : all_)
    if (one.born == moment.clock && one.captured == (graph_bytes > 0)) {
      const std::string& phase = one.origin.phase;
      return (phase == "gradients" ? "backward" : phase) + "/" + one.origin.module;
    }
  return "";
}

std::string AllocationLog::phase_at(const Allocation& allocation) const {
  const bool kept = allocation.died > allocation.module_end;
  return allocation.origin.phase == "forward" && kept ? "saved_for_backward"
                                                      : allocation.origin.phase;
}

std::vector<MemoryPart> AllocationLog::parts(const NamedTensors& owners,
                                             std::int64_t graph_bytes) const {
  const std::lock_guard lock(mutex_);
  std::map<const void*, Origin> lasting;
  for (const auto& [name, tensor] : owners) {
    const auto [phase, parameter] = owner(name);
    if (tensor.defined())
      lasting.try_emplace(storage_of(tensor), Origin{phase, module_of_parameter(parameter)});
  }
  std::map<Origin, std::int64_t> sums;
  const auto add = [&](const Moment& moment, bool captured) {
    std::int64_t known = 0;
    for (const Allocation& one : all_) {
      if (one.captured != captured || one.born > moment.clock || one.died <= moment.clock) continue;
      const auto found = one.died == kNever ? lasting.find(one.address) : lasting.end();
      sums[found == lasting.end() ? Origin{phase_at(one), one.origin.module} : found->second] +=
          one.bytes;
      known += one.bytes;
    }
    return known;
  };
  const Moment moment = highest(false, restarted_);
  sums[{"earlier", ""}] += moment.bytes - add(moment, false);
  if (graph_bytes > 0) sums[{"graph_rest", ""}] += graph_bytes - add(highest(true, 0), true);
  std::vector<MemoryPart> parts;
  for (const auto& [origin, bytes] : sums)
    if (bytes != 0) parts.push_back({origin.phase, origin.module, bytes});
  std::stable_sort(parts.begin(), parts.end(), [](const MemoryPart& a, const MemoryPart& b) {
    return a.bytes > b.bytes;
  });
  return parts;
}

} // namespace assay
