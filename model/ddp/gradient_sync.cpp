#include "model/ddp/gradient_sync.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/ddp/same_parameters.h"

namespace assay {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

const char* bucket_span(std::int64_t mib) {
  switch (mib) {
  case 1:
    return "ddp/buckets_1";
  case 25:
    return "ddp/buckets_25";
  case 50:
    return "ddp/buckets_50";
  case 100:
    return "ddp/buckets_100";
  default:
    return "ddp/buckets_other";
  }
}

const char* compress_counter(DdpCompress compress) {
  switch (compress) {
  case DdpCompress::None:
    return "ddp/compress_none";
  case DdpCompress::Fp16:
    return "ddp/compress_fp16";
  case DdpCompress::Bf16:
    return "ddp/compress_bf16";
  }
  internal_error("unknown compression of gradients");
}

// Runs in the autograd thread when a bucket is full. Dividing before the sum keeps the sum in the
// range of the gradients, which matters in 16 bits.
class AveragingHook : public c10d::CommHookInterface {
public:
  AveragingHook(std::shared_ptr<ProcessGroup> ranks,
                const TrainConfig& config,
                std::int64_t parameters)
      : ranks_(std::move(ranks)), span_(bucket_span(config.ddp_bucket_mib)),
        compress_(config.ddp_compress), find_unused_(config.ddp_find_unused),
        parameters_(parameters) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const Span span(span_);
    at::Tensor buffer = bucket.getBufferRef(), sent = buffer;
    if (compress_ == DdpCompress::Fp16) sent = buffer.to(at::kHalf);
    if (compress_ == DdpCompress::Bf16) sent = buffer.to(at::kBFloat16);
    sent.div_(ranks_->size());
    const auto work = ranks_->start_all_reduce(sent, "ddp/bucket");
    if (!work) internal_error("the gradients of a backward pass cannot be averaged in rehearsal");
    if (find_unused_ && bucket.isLast()) announce_used_map(*ranks_, parameters_);
    auto averaged = work->getFuture();
    if (compress_ != DdpCompress::None)
      averaged = averaged->then(
          [buffer](c10::ivalue::Future& future) {
            return c10::IValue(buffer.copy_(c10d::detail::parseCppCommHookResult(future.value())));
          },
          c10::TensorType::get());
    if (buffer.is_cpu()) wait_after_last(bucket, averaged);
    return averaged;
  }

  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

  // The reducer all-reduces by itself which parameters had a gradient.
  static void announce_used_map(ProcessGroup& ranks, std::int64_t parameters) {
    ranks.announce_all_reduce("ddp/used_map", at::empty({parameters}, at::kInt));
  }

private:
  // With the last bucket a CPU's backward pass has computed all it will: the reducer would wait
  // next for what is still on its way, here the wait has a span. Errors of a collective come when
  // the reducer takes the values.
  void wait_after_last(const c10d::GradBucket& bucket,
                       const c10::intrusive_ptr<c10::ivalue::Future>& averaged) {
    underway_.push_back(averaged);
    if (!bucket.isLast()) return;
    const Span span(kExposedSpan);
    for (const auto& future : underway_) future->wait();
    underway_.clear();
  }

  std::shared_ptr<ProcessGroup> ranks_;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> underway_; // buckets of this pass, on a CPU
  const char* span_;
  DdpCompress compress_;
  bool find_unused_;
  std::int64_t parameters_;
};

std::unique_ptr<c10d::Reducer> make_reducer(const std::vector<Parameter>& parameters,
                                            const TrainConfig& config,
                                            const std::shared_ptr<ProcessGroup>& ranks) {
  std::vector<at::Tensor> tensors;
  std::unordered_map<std::size_t, std::string> names;
  for (const Parameter& parameter : parameters) {
    names.emplace(tensors.size(), parameter.name);
    tensors.push_back(parameter.tensor);
  }
  // The first bucket is small, so that communication starts early (as PyTorch does).
  const std::int64_t cap = config.ddp_bucket_mib * kMiB,
                     first = std::min<std::int64_t>(cap, c10d::kDefaultFirstBucketBytes);
  std::vector<std::vector<std::size_t>> buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(
          tensors, {static_cast<std::size_t>(first), static_cast<std::size_t>(cap)}));
  std::reverse(buckets.begin(), buckets.end()); // gradients come from the last layer first
  auto reducer = std::make_unique<c10d::Reducer>(tensors,
                                                 std::move(buckets),
                                                 ranks->process_group(),
                                                 std::vector<bool>(tensors.size(), false),
                                                 cap,
                                                 config.ddp_find_unused,
                                                 /*gradient_as_bucket_view=*/false,
                                                 std::move(names),
                                                 first,
                                                 /*skip_all_reduce_unused_params=*/false,
                                                 /*use_python_reducer=*/false,
                                                 std::vector<std::int64_t>{});
  reducer->register_comm_hook(
      std::make_unique<AveragingHook>(ranks, config, static_cast<std::int64_t>(tensors.size())));
  return reducer;
}

} // namespace

GradientSync::GradientSync(const std::vector<Parameter>& parameters,
                           const TrainConfig& config,
                           std::shared_ptr<ProcessGroup> ranks)
    : config_(config), ranks_(std::move(ranks)),
      parameter_count_(static_cast<std::int64_t>(parameters.size())) {
  require_same_parameters(parameters, config_.device, *ranks_);
  const Span buffers(kRankBuffersSpan);
  reducer_ = make_reducer(parameters, config_, ranks_);
}

GradientSync::~GradientSync() = default;

bool GradientSync::averages(std::size_t index, std::size_t count) const {
  return index + 1 == count || config_.ddp_accumulate == DdpAccumulate::EveryMicroStep;
}

void GradientSync::before_forward() {
  // Not earlier: the passes before this one that only accumulate would be recorded with it, and
  // every gradient would then be waited for that many times.
  if (config_.ddp_static_graph && passes_ == 0) reducer_->set_static_graph();
  reducer_->prepare_for_forward();
  // Once, when the first pass has shown the order of the gradients: rank 0's order for all.
  if (passes_ > 0 && reducer_->should_rebuild_buckets()) {
    const Span buffers(kRankBuffersSpan);
    ranks_->announce("broadcast", "ddp/rebuilt_buckets", parameter_count_, "Int");
    (void)reducer_->rebuild_buckets();
  }
}

void GradientSync::before_backward(const at::Tensor& loss) {
  count("sharding/none");
  count(config_.ddp_static_graph ? "ddp/static_graph" : "ddp/dynamic_graph");
  count(config_.ddp_find_unused ? "ddp/find_unused" : "ddp/all_used");
  count(config_.ddp_accumulate == DdpAccumulate::Last ? "ddp/last_micro_step"
                                                      : "ddp/every_micro_step");
  count(compress_counter(config_.ddp_compress));
  reducer_->prepare_for_backward({loss});
}

void GradientSync::after_backward() {
  // The first pass of a static graph only records which gradients come; they are averaged here.
  if (config_.ddp_static_graph && passes_ == 0) {
    AveragingHook::announce_used_map(*ranks_, parameter_count_);
    reducer_->delay_all_reduce();
  }
  ++passes_;
}

} // namespace assay
