// What a captured step reads of its batch, and which spans its nodes get: the parts of
// `step_graph = on` that need no GPU.
#include <gtest/gtest.h>

#include "core/result.h"
#include "model/graph/node_spans.h"
#include "model/layout/nsa_layout.h"
#include "model/layout/static_batch.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace step_graph_test {

using testing_model::ragged_batch;
using testing_model::random_batch;
using testing_model::small_config;

std::vector<std::int32_t> ints(const at::Tensor& x) {
  const at::Tensor flat = x.contiguous().view(-1);
  return {flat.data_ptr<std::int32_t>(), flat.data_ptr<std::int32_t>() + flat.numel()};
}

std::vector<const void*> addresses(const Batch& batch) {
  std::vector<const void*> all;
  for (const at::Tensor& x : {batch.tokens,
                              batch.targets,
                              batch.documents.cu,
                              batch.documents.chunks->spans,
                              batch.documents.chunks->segment_chunks,
                              batch.documents.chunks->position,
                              batch.documents.rotary->cos,
                              batch.documents.rotary->sin})
    all.push_back(x.const_data_ptr());
  return all;
}

// Everything that layers read of `batch` is in `fixed`, followed by empty documents and chunks.
void expect_loaded(const Batch& fixed, const Batch& batch, std::int64_t documents) {
  EXPECT_TRUE(at::equal(fixed.tokens, batch.tokens));
  EXPECT_TRUE(at::equal(fixed.targets, batch.targets));
  std::vector<std::int32_t> cu = batch.documents.cu_host;
  cu.resize(static_cast<std::size_t>(documents + 1),
            static_cast<std::int32_t>(batch.token_count()));
  EXPECT_EQ(ints(fixed.documents.cu), cu);
  const ChunkLayout &from = *batch.documents.chunks, &to = *fixed.documents.chunks;
  std::vector<std::int32_t> spans = ints(from.spans), first = ints(from.segment_chunks);
  spans.resize(static_cast<std::size_t>(2 * (to.chunks + 1)), 0);
  first.resize(static_cast<std::size_t>(documents + 1), static_cast<std::int32_t>(from.chunks));
  EXPECT_EQ(ints(to.spans), spans);
  EXPECT_EQ(ints(to.segment_chunks), first);
  EXPECT_TRUE(at::equal(to.position, from.position));
  EXPECT_TRUE(at::equal(fixed.documents.rotary->cos, batch.documents.rotary->cos));
  EXPECT_TRUE(at::equal(fixed.documents.rotary->sin, batch.documents.rotary->sin));
  EXPECT_GE(to.chunks, from.chunks);
  EXPECT_GE(fixed.documents.max_len, batch.documents.max_len);
}

TEST(StaticBatch, TakesBatchesOfAnyDocumentsAtTheSameAddresses) {
  const TrainConfig config = small_config(); // two rows of 48 tokens
  StaticBatch fixed(ragged_batch(config), Attention::Varlen, 8);
  const std::vector<const void*> before = addresses(fixed.batch());
  const std::vector<std::vector<std::int32_t>> borders{
      {1, 13, 33, 65, 66}, {}, {16, 32, 64, 80}, {5}, {1, 2, 3, 4, 5, 6}};
  for (std::size_t i = 0; i < borders.size(); ++i) {
    const Batch batch = random_batch(config, 30 + i, borders[i]);
    ASSERT_TRUE(fixed.fits(batch));
    fixed.load(batch);
    expect_loaded(fixed.batch(), batch, 8);
    EXPECT_EQ(addresses(fixed.batch()), before);
  }
}

// The most chunks that documents of a batch can have: one more than whole ones, each.
TEST(StaticBatch, HasRoomForTheChunksOfEveryBatch) {
  const TrainConfig config = small_config(); // chunks of 16
  std::vector<std::int32_t> borders;
  for (std::int32_t end = 17; end < 96; end += 17) borders.push_back(end);
  const Batch batch = random_batch(config, 1, borders);
  const auto documents = static_cast<std::int64_t>(batch.documents.cu_host.size()) - 1;
  StaticBatch fixed(batch, Attention::Varlen, documents);
  fixed.load(batch);
  expect_loaded(fixed.batch(), batch, documents);
}

TEST(StaticBatch, RefusesWhatDoesNotFit) {
  const TrainConfig config = small_config();
  StaticBatch fixed(ragged_batch(config), Attention::Varlen, 4);
  const Batch many = ragged_batch(config); // seven documents
  EXPECT_FALSE(fixed.fits(many));
  EXPECT_THROW(fixed.load(many), Failure);
  TrainConfig longer = config;
  longer.seq_len = 64;
  EXPECT_FALSE(fixed.fits(random_batch(longer, 1, {})));
  EXPECT_TRUE(fixed.fits(random_batch(config, 1, {20})));
  EXPECT_THROW(StaticBatch(many, Attention::MaskDense, 4), Failure);
}

TEST(StaticBatch, OfRowsTakesTheirOneLayout) {
  const TrainConfig config = small_config();
  const Batch first = ragged_batch(config, 5), second = random_batch(config, 6, {7});
  StaticBatch fixed(first, Attention::Packed, 0);
  for (const Batch& batch : {first, second}) {
    ASSERT_TRUE(fixed.fits(batch)); // whatever its documents are
    fixed.load(batch);
    EXPECT_TRUE(at::equal(fixed.batch().tokens, batch.tokens));
    EXPECT_TRUE(at::equal(fixed.batch().rows.cu, batch.rows.cu));
    EXPECT_TRUE(at::equal(fixed.batch().rows.chunks->spans, batch.rows.chunks->spans));
    EXPECT_TRUE(at::equal(fixed.batch().rows.chunks->position, batch.rows.chunks->position));
  }
  TrainConfig taller = config;
  taller.batch_rows = 3;
  EXPECT_FALSE(fixed.fits(random_batch(taller, 1, {})));
}

// `fixed` has the blocks of `batch`; those that are missing belong to no token and no document.
void expect_blocks(const NsaLayout& fixed, const NsaLayout& batch) {
  for (const auto member :
       {&NsaLayout::document_start, &NsaLayout::position, &NsaLayout::strided_place})
    EXPECT_TRUE(at::equal(fixed.*member, batch.*member));
  EXPECT_TRUE(at::equal(fixed.compressed.first, batch.compressed.first));
  EXPECT_TRUE(at::equal(fixed.compressed.end, batch.compressed.end));
  const std::int64_t blocks = batch.compressed_blocks;
  ASSERT_LE(blocks, fixed.compressed_blocks);
  const auto begins = [](const at::Tensor& x, const at::Tensor& part) {
    return at::equal(x.narrow(0, 0, part.size(0)), part);
  };
  EXPECT_TRUE(begins(fixed.strided_token, batch.strided_token));
  EXPECT_TRUE(begins(fixed.block_tokens, batch.block_tokens));
  EXPECT_TRUE(begins(fixed.compressed_documents.cu, batch.compressed_documents.cu));
  const std::int64_t rest = fixed.strided_token.size(0) - batch.strided_token.size(0);
  EXPECT_TRUE(
      fixed.strided_token.narrow(0, batch.strided_token.size(0), rest).eq(-1).all().item<bool>());
  EXPECT_EQ(fixed.compressed_documents.cu.max().item<std::int64_t>(), blocks);
  EXPECT_GE(fixed.compressed_documents.max_len, batch.compressed_documents.max_len);
  const at::Tensor none = batch.token_blocks.eq(blocks);
  EXPECT_TRUE(
      at::equal(fixed.token_blocks, batch.token_blocks.masked_fill(none, fixed.compressed_blocks)));
}

TEST(StaticBatch, TakesTheBlocksOfSparseAttention) {
  const TrainConfig config = testing_model::small_nsa(); // two rows of 96 tokens, blocks of 8
  StaticBatch fixed(random_batch(config, 1, {}), Attention::Varlen, 40);
  const NsaLayout& layout = *fixed.batch().documents.sparse;
  const void* before = layout.block_tokens.const_data_ptr();
  std::vector<std::int32_t> many; // no document has a block
  for (std::int32_t end = 7; end < 192; end += 7) many.push_back(end);
  for (const std::vector<std::int32_t>& borders :
       {std::vector<std::int32_t>{1, 13, 33, 65, 66}, {}, many, {8, 16, 24, 100}}) {
    const Batch batch = random_batch(config, 2, borders);
    ASSERT_TRUE(fixed.fits(batch));
    fixed.load(batch);
    expect_blocks(layout, *batch.documents.sparse);
  }
  EXPECT_EQ(layout.block_tokens.const_data_ptr(), before);
  StaticBatch rows(random_batch(config, 1, {}), Attention::Packed, 0);
  EXPECT_TRUE(rows.batch().rows.sparse != nullptr);
}

class Outer : public SpanSink {
public:
  void begin(const char* name) override { seen += std::string("+") + name; }
  void end(const char* name) override { seen += std::string("-") + name; }
  void count(const char* name, std::int64_t) override { seen += std::string("#") + name; }
  std::string seen;
};

TEST(NodeSpans, APlaceInTheChainGivesTheOpenSpans) {
  std::int64_t nodes = 0;
  Outer outer;
  const SpanSinkGuard guard(outer);
  std::vector<NodeRun> runs;
  {
    NodeSpans spans([&] { return nodes; });
    nodes = 1; // before every span
    {
      const Span forward("forward");
      nodes = 3;
      {
        const Span layer("latent_attention");
        nodes = 7;
        count("kernel/flash_varlen");
      }
      { const Span empty("norms/fused"); }
      nodes = 8;
    }
    {
      const Span backward("backward");
      std::thread([] { const Span elsewhere("delta_rule/fused"); }).join(); // autograd's thread
      nodes = 20;
    }
    runs = spans.take();
  }
  EXPECT_EQ(runs,
            (std::vector<NodeRun>{{"", 1},
                                  {"forward", 2},
                                  {"forward>latent_attention", 4},
                                  {"forward", 1},
                                  {"backward", 12}}));
  EXPECT_EQ(to_text({runs, {}}),
            R"([[["",1],["forward",2],["forward>latent_attention",4],["forward",1],)"
            R"(["backward",12]],[]])");
  EXPECT_EQ(outer.seen,
            "+forward+latent_attention#kernel/flash_varlen-latent_attention+norms/fused"
            "-norms/fused-forward+backward+delta_rule/fused-delta_rule/fused-backward");
  { const Span after("after"); } // the sink before is back
  EXPECT_TRUE(outer.seen.ends_with("+after-after"));
}

} // namespace step_graph_test
} // namespace assay
