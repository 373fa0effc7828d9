// ModelFamily: the registry row of a model, and what a built model offers the trainer.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"
#include "model/config/train_config.h"
#include "model/layers/loss_head.h"
#include "model/layout/batch.h"

namespace assay {

struct Parameter {
  std::string name;
  at::Tensor tensor;  // leaf that requires a gradient
  bool decay = false; // weight decay applies (matrices)
};

// Or a stack of matrices: neither embedding nor head.
bool is_matrix_of_layer(const Parameter& parameter);

// Makes parameters in order: drawn on the CPU from the trainer's own generator, so that every
// device starts from the same values, then moved.
class ParameterFactory {
public:
  ParameterFactory(at::Generator generator, at::Device device)
      : generator_(std::move(generator)), device_(device) {}

  at::Tensor
  normal(const std::string& name, at::IntArrayRef shape, double std_dev); // a matrix: decays
  at::Tensor uniform(const std::string& name, at::IntArrayRef shape, double low, double high);
  at::Tensor ones(const std::string& name, at::IntArrayRef shape);
  at::Tensor zeros(const std::string& name, at::IntArrayRef shape);
  // Takes values that the caller drew with generator().
  at::Tensor add(const std::string& name, const at::Tensor& values, bool decay);

  at::Generator& generator() { return generator_; }
  std::vector<Parameter> take() { return std::move(parameters_); }

  // A router's bias [experts], 0 at first, which no gradient of the loss changes (BuiltModel).
  at::Tensor balance(const std::string& name, std::int64_t experts);
  std::vector<Parameter> take_balances() { return std::move(balances_); }

private:
  at::Generator generator_;
  at::Device device_;
  std::vector<Parameter> parameters_, balances_;
};

class Model {
public:
  virtual ~Model() = default;
  // Logits [B*T, vocab_size] of a prepared batch. Documents are isolated by the paths that
  // isolates_documents() names; the
  // other paths let the documents of a row see each other, in every layer.
  virtual at::Tensor forward(const Batch& batch, Attention path) const = 0;
  // Mean loss of the batch's tokens, nats, fp32, 0-dim. `gradient`: what the backward pass, if one
  // follows, will bring.
  virtual at::Tensor
  loss(const Batch& batch, Attention path, const LossGradient& gradient) const = 0;
};

struct BuiltModel {
  std::unique_ptr<Model> model;
  std::vector<Parameter> parameters; // in the order of docs/model.md
  // Biases of routers, no part of the loss: a backward pass leaves in their gradients how many more
  // tokens than the mean an expert took (model/training/update/expert_balance.h).
  std::vector<Parameter> balances;
};

struct ModelFamily {
  std::string name;
  std::string summary;
  std::function<BuiltModel(const TrainConfig&, at::Generator)> build;
};

const Registry<ModelFamily>& model_families();

} // namespace assay
