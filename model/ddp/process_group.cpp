#include "model/ddp/process_group.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

// The interface that GLOO_SOCKET_IFNAME names, the loopback for ranks of one machine, else the one
// that this machine's name resolves to.
std::shared_ptr<::gloo::transport::Device> gloo_device() {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"))
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  const char* master = std::getenv("MASTER_ADDR");
  const std::string_view address = master == nullptr ? "127.0.0.1" : master;
  if (address == "127.0.0.1" || address == "localhost")
    return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

c10::intrusive_ptr<c10d::ProcessGroup>
make_group(const c10::intrusive_ptr<c10d::Store>& store, const RankPlace& place, Device device) {
  using Group = c10d::ProcessGroup;
  auto group = c10::make_intrusive<Group>(store, place.rank, place.size);
  if (device == Device::Cuda) {
    const auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, place.rank, place.size);
    group->setDefaultBackend(Group::BackendType::NCCL);
    group->setBackend(c10::DeviceType::CUDA, Group::BackendType::NCCL, backend);
    return group;
  }
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(gloo_device());
  const auto backend =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.size, options);
  group->setDefaultBackend(Group::BackendType::GLOO);
  group->setBackend(c10::DeviceType::CPU, Group::BackendType::GLOO, backend);
  return group;
}

} // namespace

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Store> store,
                           RankPlace place,
                           Device device,
                           std::function<void(std::string)> on_issue)
    : store_(std::move(store)), place_(place), device_(device), on_issue_(std::move(on_issue)) {
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size)
    internal_error("rank {} of {} ranks cannot be", place.rank, place.size);
  group_ = make_group(store_, place_, device_);
}

void ProcessGroup::close() {
  if (closed_.exchange(true)) internal_error("a group of ranks is closed once");
  group_->shutdown();
}

void ProcessGroup::announce(const char* operation,
                            const char* what,
                            std::int64_t elements,
                            const char* dtype) {
  if (closed_) internal_error("{} '{}' on a closed group of ranks", operation, what);
  std::string fingerprint = fmt::format("{} {} {} {}", operation, what, elements, dtype);
  if (rehearsing_) {
    const std::lock_guard lock(mutex_);
    rehearsed_.push_back(std::move(fingerprint));
  } else if (on_issue_) {
    on_issue_(std::move(fingerprint));
  }
}

void ProcessGroup::announce_all_reduce(const char* what, const at::Tensor& tensor) {
  announce("all_reduce", what, tensor.numel(), c10::toString(tensor.scalar_type()));
  if (rehearsing_) return;
  count("ddp/all_reduces");
  count("ddp/all_reduced_bytes", static_cast<std::int64_t>(tensor.nbytes()));
}

c10::intrusive_ptr<c10d::Work> ProcessGroup::start_all_reduce(at::Tensor& sum, const char* what) {
  announce_all_reduce(what, sum);
  if (rehearsing_) return {};
  std::vector<at::Tensor> tensors{sum};
  return group_->allreduce(tensors);
}

void ProcessGroup::all_reduce(at::Tensor& sum, const char* what) {
  finish(start_all_reduce(sum, what));
}

c10::intrusive_ptr<c10d::Work>
ProcessGroup::start_all_gather(at::Tensor& out, at::Tensor& in, const char* what) {
  announce("all_gather", what, out.numel(), c10::toString(out.scalar_type()));
  if (rehearsing_) return {};
  count("ddp/all_gathers");
  count("ddp/all_gathered_bytes", static_cast<std::int64_t>(out.nbytes()));
  return group_->_allgather_base(out, in);
}

c10::intrusive_ptr<c10d::Work>
ProcessGroup::start_reduce_scatter(at::Tensor& out, at::Tensor& in, const char* what) {
  announce("reduce_scatter", what, in.numel(), c10::toString(in.scalar_type()));
  if (rehearsing_) return {};
  count("ddp/reduce_scatters");
  count("ddp/reduce_scattered_bytes", static_cast<std::int64_t>(in.nbytes()));
  return group_->_reduce_scatter_base(out, in);
}

void ProcessGroup::finish(const c10::intrusive_ptr<c10d::Work>& work) const {
  if (work) wait_for(*work);
}

void ProcessGroup::wait_for(c10d::Work& work) const {
  std::optional<Span> span;
  if (device_ == Device::Cpu) span.emplace(kExposedSpan);
  work.wait();
}

void ProcessGroup::broadcast(at::Tensor& tensor, int root, const char* what) {
  announce("broadcast", what, tensor.numel(), c10::toString(tensor.scalar_type()));
  if (rehearsing_) return;
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors{tensor};
  wait_for(*group_->broadcast(tensors, options));
}

void ProcessGroup::barrier(const char* what) {
  announce("barrier", what, 0, "none");
  if (rehearsing_) return;
  c10d::BarrierOptions options;
  if (device_ == Device::Cuda) options.device_ids = {place_.local_rank};
  wait_for(*group_->barrier(options));
}

ProcessGroup::Rehearsal::Rehearsal(ProcessGroup& group) : group_(group) {
  if (group_.rehearsing_.exchange(true)) internal_error("rehearsals of a rank group do not nest");
  const std::lock_guard lock(group_.mutex_);
  group_.rehearsed_.clear();
}

ProcessGroup::Rehearsal::~Rehearsal() {
  group_.rehearsing_ = false;
}

std::vector<std::string> ProcessGroup::Rehearsal::fingerprints() const {
  const std::lock_guard lock(group_.mutex_);
  return group_.rehearsed_;
}

std::string broadcast_text(ProcessGroup& ranks, const std::string& text, int root, Device device) {
  const at::Device where = torch_device(device);
  at::Tensor length =
      at::full({1}, static_cast<std::int64_t>(text.size()), at::TensorOptions().dtype(at::kLong))
          .to(where);
  ranks.broadcast(length, root, "text/length");
  at::Tensor bytes = at::zeros({length.item<std::int64_t>()}, at::kByte);
  if (ranks.rank() == root) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  bytes = bytes.to(where);
  if (bytes.numel() > 0) ranks.broadcast(bytes, root, "text/bytes");
  bytes = bytes.cpu();
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

} // namespace assay
