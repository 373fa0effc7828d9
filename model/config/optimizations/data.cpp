// Rows of optimizations(). The loader: what reads and tokenizes text ahead of the training step.
#include "model/config/optimizations/rows.h"

namespace assay {

namespace {

Need loads_text() {
  return {{"data_source = real", "nothing is loaded otherwise"},
          [](const TrainConfig& c) { return c.data_source == TokenSource::Real; }};
}

} // namespace

std::vector<Optimization> data_rows() {
  return {
      {.name = "tokenizer_threads",
       .summary = "documents are read and tokenized by several threads; their order stays",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::PipelineStep,
       .gates = {Gate::Batches},
       .levels =
           {{"one", "1 thread", [](TrainConfig& c) { c.tokenizer_threads = 1; }, "data/threads_1"},
            {"two", "2 threads", [](TrainConfig& c) { c.tokenizer_threads = 2; }, "data/threads_2"},
            {"four",
             "4 threads",
             [](TrainConfig& c) { c.tokenizer_threads = 4; },
             "data/threads_4"},
            {"eight",
             "8 threads",
             [](TrainConfig& c) { c.tokenizer_threads = 8; },
             "data/threads_8"}},
       .equality = "tokens, targets and borders of the batches equal",
       .needs = {loads_text()}},
      {.name = "prefetch",
       .summary = "the loader runs this many batches ahead of the training step",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::PipelineStep,
       .gates = {Gate::Batches},
       .levels =
           {{"one", "1 batch", [](TrainConfig& c) { c.prefetch_batches = 1; }, "data/ahead_1"},
            {"four", "4 batches", [](TrainConfig& c) { c.prefetch_batches = 4; }, "data/ahead_4"},
            {"sixteen",
             "16 batches",
             [](TrainConfig& c) { c.prefetch_batches = 16; },
             "data/ahead_16"}},
       .equality = "tokens, targets and borders of the batches equal",
       .needs = {loads_text()}},
      {.name = "batch_copy",
       .summary = "batches are queued for the GPU from pinned memory; the host does not wait",
       .equivalence = Equivalence::Bitwise,
       .unit = Unit::PipelineStep,
       .on_tiny = "device=cuda",
       .gates = {Gate::Batches},
       .levels = {{"pageable",
                   "copied from ordinary memory, while the host waits for the step before",
                   [](TrainConfig& c) { c.batch_copy = BatchCopy::Pageable; },
                   "data/copy_pageable"},
                  {"pinned",
                   "queued from pinned memory behind the step before",
                   [](TrainConfig& c) { c.batch_copy = BatchCopy::Pinned; },
                   "data/copy_pinned"},
                  {"own_stream",
                   "copied from pinned memory beside the step before, on a stream of its own",
                   [](TrainConfig& c) { c.batch_copy = BatchCopy::OwnStream; },
                   "data/copy_own_stream"}},
       .equality = "tokens, targets and borders of the batches equal",
       .needs = {{{"device = cuda", "a CPU copies no batch"},
                  [](const TrainConfig& c) { return c.device == Device::Cuda; }}}},
      {.name = "loader_reshape",
       .summary = "where rows become longer while training, the loader goes on instead of being "
                  "made anew",
       .equivalence = Equivalence::Objective,
       .unit = Unit::PipelineStep,
       .on_tiny = "phase_batches=1",
       .gates = {Gate::Finite},
       .levels = {{"recreate",
                   "another loader for each phase, from the beginning of the document",
                   [](TrainConfig& c) { c.loader_reshape = LoaderReshape::Recreate; },
                   "data/recreated"},
                  {"resize",
                   "the same loader with rows of another length",
                   [](TrainConfig& c) { c.loader_reshape = LoaderReshape::Resize; },
                   "data/resized"}},
       .equality = "finite losses of a short training; `recreate` hands out tokens twice",
       .needs = {{{"phase_batches of at least 1", "rows have one length otherwise"},
                  [](const TrainConfig& c) { return c.phase_batches > 0; }}}},
      {.name = "data_source",
       .summary = "random tokens made beforehand stand for text, so that nothing is loaded",
       .equivalence = Equivalence::Objective,
       .unit = Unit::PipelineStep,
       .gates = {Gate::Finite},
       .levels = {{"real",
                   "the training text",
                   [](TrainConfig& c) { c.data_source = TokenSource::Real; },
                   "data/text"},
                  {"synthetic",
                   "random tokens between the borders of its first 16 batches",
                   [](TrainConfig& c) { c.data_source = TokenSource::Synthetic; },
                   "data/synthetic"}},
       .equality = "finite losses of a short training; random tokens teach nothing"},
  };
}

} // namespace assay
