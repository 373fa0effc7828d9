#include "model/ddp/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/ddp/same_parameters.h"

namespace assay {

namespace {

constexpr std::int64_t kAlignment = 64; // elements: 256 bytes of fp32, more than any kernel reads

std::int64_t rounded_up(std::int64_t size, std::int64_t to) {
  return (size + to - 1) / to * to;
}

// Of "layers.3.ffn_in" 3; of others `layers`.
std::size_t unit_of(const std::string& name, std::size_t layers) {
  const std::string prefix = "layers.";
  return name.starts_with(prefix) ? std::stoul(name.substr(prefix.size())) : layers;
}

} // namespace

// Offsets and sizes are of elements in the buffer of all shares.
struct ShardedParameters::Unit {
  std::size_t index = 0; // in units_
  std::vector<std::size_t> parameters;
  std::vector<at::Tensor> tensors; // of them
  std::vector<std::int64_t> begins;
  std::int64_t share = 0; // of one rank
  at::Tensor buffer;      // [N * share]; its storage comes and goes with sharding = parameters
  bool present = true;    // the weights are, or are on their way to, the buffer
  at::Tensor own;         // sent by the gather that is on its way
  c10::intrusive_ptr<c10d::Work> gather;
  std::size_t first_piece = 0, pieces = 0;

  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators; // keep their hooks alive
  std::size_t waiting = 0;                                          // gradients to come
  at::Tensor sent, received;                                        // of the reduction
  c10::intrusive_ptr<c10d::Work> reduction;
};

ShardedParameters::ShardedParameters(const std::vector<Parameter>& parameters,
                                     std::vector<Parameter> balances,
                                     const TrainConfig& config,
                                     std::shared_ptr<ProcessGroup> ranks)
    : whole_weights_(config.sharding == Sharding::Optimizer), ranks_(std::move(ranks)),
      balances_(std::move(balances)), parameters_(parameters.size()) {
  std::vector<Parameter> all = parameters;
  all.insert(all.end(), balances_.begin(), balances_.end());
  require_same_parameters(all, config.device, *ranks_);
  const std::size_t layers = config.pattern.size();
  std::vector<std::vector<std::size_t>> members(layers + 1);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    members[unit_of(parameters[i].name, layers)].push_back(i);
  for (const std::vector<std::size_t>& unit : members) add_unit(unit, parameters);
  if (pieces_.empty())
    bad_input("rank {} has no share of the model's {} parameters; use fewer `ranks`",
              ranks_->rank(),
              parameters.size());
}

ShardedParameters::~ShardedParameters() = default;

void ShardedParameters::add_unit(const std::vector<std::size_t>& members,
                                 const std::vector<Parameter>& parameters) {
  const at::NoGradGuard no_grad;
  const Span buffers(kRankBuffersSpan);
  Unit& unit = *units_.emplace_back(std::make_unique<Unit>());
  unit.index = units_.size() - 1;
  std::int64_t size = 0;
  for (const std::size_t member : members) {
    unit.parameters.push_back(member);
    unit.tensors.push_back(parameters[member].tensor);
    unit.begins.push_back(size);
    size += rounded_up(parameters[member].tensor.numel(), kAlignment);
  }
  unit.share = rounded_up((size + ranks_->size() - 1) / ranks_->size(), kAlignment);
  unit.buffer = at::zeros({unit.share * ranks_->size()},
                          parameters.front().tensor.options().requires_grad(false));
  for (std::size_t i = 0; i < members.size(); ++i) {
    at::Tensor& tensor = unit.tensors[i];
    const at::Tensor place = unit.buffer.narrow(0, unit.begins[i], tensor.numel());
    place.copy_(tensor.detach().flatten());
    tensor.set_data(place.view(tensor.sizes()));
  }
  place_pieces(unit, parameters);
  watch_gradients(unit);
  release(unit);
}

void ShardedParameters::place_pieces(Unit& unit, const std::vector<Parameter>& parameters) {
  const std::int64_t begin = ranks_->rank() * unit.share, end = begin + unit.share;
  unit.first_piece = pieces_.size();
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter& parameter = parameters[unit.parameters[i]];
    const std::int64_t from = std::max(begin, unit.begins[i]),
                       to = std::min(end, unit.begins[i] + parameter.tensor.numel());
    if (from >= to) continue;
    places_.push_back({unit.parameters[i], from - unit.begins[i], to - from, from - begin});
    pieces_.push_back({parameter.name,
                       unit.buffer.narrow(0, from, to - from).clone().requires_grad_(),
                       parameter.decay});
  }
  unit.pieces = pieces_.size() - unit.first_piece;
}

void ShardedParameters::watch_gradients(Unit& unit) {
  for (const at::Tensor& tensor : unit.tensors) {
    std::shared_ptr<torch::autograd::Node> node = torch::autograd::impl::grad_accumulator(tensor);
    using torch::autograd::variable_list;
    node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, &unit](const variable_list& outputs, const variable_list&) {
          if (!in_pass_ || unit.waiting == 0) return outputs;
          --unit.waiting;
          if (unit.waiting == 0) start_ready_reductions();
          return outputs;
        },
        [](torch::autograd::CompiledNodeArgs&) {}));
    unit.accumulators.push_back(std::move(node));
  }
}

at::Tensor ShardedParameters::part(std::size_t i, const std::vector<at::Tensor>& whole) const {
  return whole[places_[i].parameter].flatten().narrow(0, places_[i].begin, places_[i].size);
}

// ---- Weights ------------------------------------------------------------------------------------

// [share]: the pieces as they lie in this rank's share, with what separates them.
at::Tensor
ShardedParameters::share_of(const Unit& unit,
                            const std::function<at::Tensor(std::size_t)>& of_piece) const {
  at::Tensor share = at::zeros({unit.share}, unit.buffer.options());
  for (std::size_t i = unit.first_piece; i < unit.first_piece + unit.pieces; ++i)
    share.narrow(0, places_[i].in_share, places_[i].size).copy_(of_piece(i));
  return share;
}

void ShardedParameters::start_gather(Unit& unit) {
  if (unit.present) return;
  const at::NoGradGuard no_grad;
  const Span buffers(kRankBuffersSpan);
  c10::StorageImpl& storage = *unit.buffer.storage().unsafeGetStorageImpl();
  if (storage.nbytes() == 0) {
    const std::size_t bytes = unit.buffer.nbytes();
    storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
    storage.set_nbytes(bytes);
  }
  unit.own = share_of(unit, [this](std::size_t i) { return pieces_[i].tensor; });
  unit.gather = ranks_->start_all_gather(unit.buffer, unit.own, "sharding/weights");
  unit.present = true;
}

void ShardedParameters::gather(Unit& unit) {
  start_gather(unit);
  ranks_->finish(std::exchange(unit.gather, {}));
  unit.own.reset();
}

void ShardedParameters::release(Unit& unit) {
  if (whole_weights_) return;
  ranks_->finish(std::exchange(unit.gather, {})); // one that nobody needed
  unit.own.reset();
  unit.present = false;
  c10::StorageImpl& storage = *unit.buffer.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, unit.buffer.device()));
  storage.set_nbytes(0);
}

void ShardedParameters::gather_all() {
  for (const std::unique_ptr<Unit>& unit : units_) {
    ranks_->finish(std::exchange(unit->gather, {}));
    unit->present = false; // what it has may be old
    start_gather(*unit);
  }
  for (const std::unique_ptr<Unit>& unit : units_) gather(*unit);
}

void ShardedParameters::pieces_changed() {
  if (whole_weights_) return gather_all();
  for (const std::unique_ptr<Unit>& unit : units_) release(*unit);
}

void ShardedParameters::before_forward() {
  gather(*units_.back());
}

void ShardedParameters::before_layer(std::size_t index) {
  gather(*units_[index]);
  if (index + 2 < units_.size()) start_gather(*units_[index + 1]);
}

void ShardedParameters::after_layer(std::size_t index,
                                    const at::Tensor& x,
                                    const at::Tensor& branch) {
  if (whole_weights_) return;
  if (index + 2 < units_.size()) release(*units_[index]); // the backward pass begins with the last
  const auto again = [this, index](const at::Tensor&) {
    gather(*units_[index]);
    if (index > 0) start_gather(*units_[index - 1]);
  };
  for (const at::Tensor& out : {x, branch})
    if (out.defined() && out.requires_grad()) (void)out.register_hook(again);
}

// ---- Gradients ----------------------------------------------------------------------------------

void ShardedParameters::before_backward(const at::Tensor&) {
  count(whole_weights_ ? "sharding/optimizer" : "sharding/parameters");
  for (const std::unique_ptr<Unit>& unit : units_) unit->waiting = unit->tensors.size();
  reduced_ = 0;
  in_pass_ = true;
}

// From the last layer to the first, then what belongs to none: the same order on every rank,
// whichever gradients come first there.
void ShardedParameters::start_ready_reductions() {
  const std::size_t layers = units_.size() - 1;
  while (reduced_ < units_.size()) {
    Unit& unit = *units_[reduced_ < layers ? layers - 1 - reduced_ : layers];
    if (unit.waiting > 0) return;
    start_reduction(unit);
    ++reduced_;
  }
}

void ShardedParameters::start_reduction(Unit& unit) {
  const at::NoGradGuard no_grad;
  const Span buffers(kRankBuffersSpan);
  unit.sent = at::zeros({unit.share * ranks_->size()}, unit.buffer.options());
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    at::Tensor& gradient = unit.tensors[i].mutable_grad();
    if (!gradient.defined()) continue;
    unit.sent.narrow(0, unit.begins[i], gradient.numel()).copy_(gradient.flatten());
    gradient.reset();
  }
  release(unit);
  unit.sent.div_(ranks_->size()); // before the sum, which stays in the gradients' range
  unit.received = at::empty({unit.share}, unit.buffer.options());
  unit.reduction = ranks_->start_reduce_scatter(unit.received, unit.sent, "sharding/gradients");
}

void ShardedParameters::finish_reduction(Unit& unit) {
  ranks_->finish(std::exchange(unit.reduction, {}));
  for (std::size_t i = unit.first_piece; i < unit.first_piece + unit.pieces; ++i) {
    const at::Tensor gradient = unit.received.narrow(0, places_[i].in_share, places_[i].size);
    at::Tensor& sum = pieces_[i].tensor.mutable_grad();
    if (sum.defined())
      sum.add_(gradient);
    else
      sum = gradient;
  }
  unit.sent.reset();
  unit.received.reset();
}

void ShardedParameters::after_backward() {
  const at::NoGradGuard no_grad;
  in_pass_ = false;
  for (const std::unique_ptr<Unit>& unit : units_) unit->waiting = 0; // the rest had no gradient
  start_ready_reductions();
  for (const std::unique_ptr<Unit>& unit : units_) finish_reduction(*unit);
  average_balances();
}

// Of this pass alone: what earlier ones left is averaged.
void ShardedParameters::average_balances() {
  for (const Parameter& balance : balances_) {
    at::Tensor& gradient = balance.tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(balance.tensor);
    gradient.div_(ranks_->size());
    ranks_->all_reduce(gradient, "sharding/balance");
  }
}

std::vector<at::Tensor> ShardedParameters::whole(const std::vector<at::Tensor>& of_pieces) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors(parameters_);
  for (const std::unique_ptr<Unit>& unit : units_) {
    at::Tensor own = share_of(*unit, [&](std::size_t i) { return of_pieces[i]; });
    at::Tensor all = at::empty({unit->share * ranks_->size()}, unit->buffer.options());
    ranks_->finish(ranks_->start_all_gather(all, own, "sharding/whole"));
    for (std::size_t i = 0; i < unit->tensors.size(); ++i) {
      const at::Tensor& tensor = unit->tensors[i];
      tensors[unit->parameters[i]] =
          all.narrow(0, unit->begins[i], tensor.numel()).clone().view(tensor.sizes());
    }
  }
  return tensors;
}

} // namespace assay
