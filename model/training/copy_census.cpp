#include "model/training/copy_census.h"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/span.h"

namespace assay {

namespace {

// What is open on a thread, outermost first.
struct OpenCalls {
  std::vector<const char*> spans;
  std::vector<std::string> operators; // since the innermost span
  std::vector<std::size_t> outer;     // how many operators were open when each span began
};
thread_local OpenCalls open_calls;

std::string type_and_place(const at::Tensor& x, bool with_device) {
  std::string type = c10::toString(x.scalar_type());
  std::ranges::transform(
      type, type.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return with_device ? type + " " + c10::DeviceTypeName(x.device().type(), /*lower_case=*/true)
                     : type;
}

class CopyCensus final : public SpanSink {
public:
  void begin(const char* name) override {
    open_calls.spans.push_back(name);
    open_calls.outer.push_back(open_calls.operators.size());
  }
  void end(const char*) override {
    if (open_calls.spans.empty()) return; // began before the census
    open_calls.spans.pop_back();
    open_calls.outer.pop_back();
  }
  void count(const char*, std::int64_t) override {}

  void copied(const at::Tensor& to, const at::Tensor& from) {
    const OpenCalls& open = open_calls;
    const std::size_t first = open.outer.empty() ? 0 : open.outer.back();
    const bool direct = open.operators.size() <= first; // the span's own code copies
    const bool moves = to.device() != from.device();
    StepCopy row{open.spans.empty() ? "" : open.spans.back(),
                 direct ? "" : open.operators[first],
                 direct ? "" : open.operators.back(),
                 fmt::format("{}", fmt::join(to.sizes(), "x")),
                 type_and_place(from, moves),
                 type_and_place(to, moves)};
    const std::lock_guard lock(mutex_);
    StepCopy& sum =
        rows_
            .try_emplace(
                std::tuple(row.stage, row.caller, row.asked_by, row.shape, row.from, row.to), row)
            .first->second;
    ++sum.calls;
    sum.bytes += static_cast<std::int64_t>(to.nbytes()) +
                 from.numel() * static_cast<std::int64_t>(from.element_size());
  }

  std::vector<StepCopy> take() {
    std::vector<StepCopy> rows;
    for (auto& [key, row] : rows_) rows.push_back(std::move(row));
    std::ranges::stable_sort(rows, std::ranges::greater(), &StepCopy::bytes);
    return rows;
  }

private:
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>,
           StepCopy>
      rows_;
};

// The callbacks are plain functions: they find their census here. One at a time.
std::atomic<CopyCensus*> active_census{nullptr};

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& function) {
  CopyCensus* const census = active_census.load();
  if (census == nullptr) return nullptr;
  if (std::string_view(function.name()) == "aten::copy_")
    if (const auto inputs = function.inputs();
        inputs.size() >= 2 && inputs[0].isTensor() && inputs[1].isTensor())
      census->copied(inputs[0].toTensor(), inputs[1].toTensor());
  open_calls.operators.emplace_back(function.name());
  return nullptr;
}

void on_return(const at::RecordFunction&, at::ObserverContext*) {
  if (!open_calls.operators.empty()) open_calls.operators.pop_back();
}

class CensusGuard {
public:
  explicit CensusGuard(CopyCensus& census) {
    open_calls = {};
    active_census = &census;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(on_call, on_return)
            .needsInputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~CensusGuard() {
    at::removeCallback(handle_);
    active_census = nullptr;
  }
  CensusGuard(const CensusGuard&) = delete;
  CensusGuard& operator=(const CensusGuard&) = delete;

private:
  at::CallbackHandle handle_;
};

} // namespace

std::vector<StepCopy> copies_of_step(Trainer& trainer, const std::vector<Batch>& batches) {
  (void)trainer.step(batches);
  CopyCensus census;
  {
    const SpanSinkGuard spans(census);
    const CensusGuard operators(census);
    (void)trainer.step(batches).loss(); // waits for the device
  }
  return census.take();
}

} // namespace assay
