// The narrow set of LibTorch headers that the trainer needs, precompiled once
// (cmake/libtorch.cmake). torch/torch.h is used nowhere: it doubles the compile time of every file.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/csrc/autograd/variable.h>
