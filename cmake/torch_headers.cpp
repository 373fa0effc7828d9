// Compiled once so that the precompiled LibTorch header (model/torch_pch.h) belongs to a target of
// its own.
