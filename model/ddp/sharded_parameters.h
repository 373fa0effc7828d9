// ShardedParameters: each rank updates and keeps its share of what a model trains (ZeRO,
// Rajbhandari et al., SC 2020, arXiv 1910.02054; units as in PyTorch FSDP, Zhao et al., VLDB 2023).
//
// A unit is one layer's parameters, or all that belong to no layer, one behind the other in one
// buffer of N equal shares; share r is rank r's. A piece is the part of a parameter in this rank's
// share: the optimizer, its state and the average have pieces in place of parameters. After the
// backward pass of a unit its gradients are reduce-scattered.
//
// sharding = optimizer (ZeRO's stage 2): every rank has all weights, gathered after each update.
// sharding = parameters (stage 3): a unit's weights are gathered before its forward and before its
// backward pass, and given back after each; the next unit's are on their way meanwhile.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/config/train_config.h"
#include "model/ddp/process_group.h"
#include "model/ddp/rank_sync.h"
#include "model/families/family.h"
#include "model/layers/layer_hooks.h"

namespace assay {

class ShardedParameters : public RankSync, public LayerHooks {
public:
  // Collective. The parameters lie in the units' buffers from now on. Throws bad input where the
  // ranks' weights differ, and where a rank's share is empty. `balances`: averaged beside the
  // gradients (BuiltModel).
  ShardedParameters(const std::vector<Parameter>& parameters,
                    std::vector<Parameter> balances,
                    const TrainConfig& config,
                    std::shared_ptr<ProcessGroup> ranks);
  ~ShardedParameters() override;

  // This rank's, [elements], named as their parameters, with gradients after a pass.
  const std::vector<Parameter>& pieces() const { return pieces_; }

  bool averages(std::size_t, std::size_t) const override { return true; }
  void before_forward() override;
  void before_backward(const at::Tensor& loss) override;
  void after_backward() override; // the pieces have the averaged gradients added
  void before_layer(std::size_t index) override;
  void after_layer(std::size_t index, const at::Tensor& x, const at::Tensor& branch) override;

  // All collective:
  void gather_all();     // the parameters have what the pieces hold now
  void pieces_changed(); // the pieces are what later passes compute with
  void add_up(at::Tensor& sum) const { ranks_->all_reduce(sum, "sharding/sum"); }
  // Tensors of the parameters' shapes and order, from this rank's pieces of them.
  std::vector<at::Tensor> whole(const std::vector<at::Tensor>& of_pieces) const;

  // Of such tensors the part that piece i is: [elements]. Not collective.
  at::Tensor part(std::size_t i, const std::vector<at::Tensor>& whole) const;

private:
  struct Unit;
  struct Place { // of a piece
    std::size_t parameter;
    std::int64_t begin, size; // elements of it
    std::int64_t in_share;    // where it lies in this rank's share of its unit
  };

  Unit& unit_of_layer(std::size_t index) { return *units_[index]; }
  void add_unit(const std::vector<std::size_t>& members, const std::vector<Parameter>& parameters);
  void place_pieces(Unit& unit, const std::vector<Parameter>& parameters);
  void watch_gradients(Unit& unit);
  at::Tensor share_of(const Unit& unit,
                      const std::function<at::Tensor(std::size_t)>& of_piece) const;
  void start_gather(Unit& unit);
  void gather(Unit& unit);
  void release(Unit& unit);
  void start_ready_reductions();
  void start_reduction(Unit& unit);
  void finish_reduction(Unit& unit);
  void average_balances();

  bool whole_weights_; // sharding = optimizer
  std::shared_ptr<ProcessGroup> ranks_;
  std::vector<Parameter> balances_;
  std::size_t parameters_;                   // their number
  std::vector<std::unique_ptr<Unit>> units_; // layers in order, then what belongs to none
  std::vector<Parameter> pieces_;
  std::vector<Place> places_; // of pieces_
  bool in_pass_ = false;      // between before_backward() and after_backward()
  std::size_t reduced_ = 0;   // units of this pass, in the order in which all ranks reduce them
};

} // namespace assay
