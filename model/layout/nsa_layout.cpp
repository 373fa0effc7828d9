#include "model/layout/nsa_layout.h"

#include <algorithm>

#include "core/result.h"
#include "model/layout/segments.h"
#include "model/layout/upload.h"

namespace assay {

namespace {

using Numbers = std::vector<std::int64_t>;

// One document: its first token and length, its first compressed and selection block and how many
// it has of each.
struct Document {
  std::int64_t start, length;
  std::int64_t compressed_first, compressed_count, selection_first, selection_count;
};

std::vector<Document> documents_of(const std::vector<std::int32_t>& cu, const NsaShape& shape) {
  std::vector<Document> documents;
  std::int64_t compressed = 0, selection = 0;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    const std::int64_t length = cu[i] - cu[i - 1];
    const Document document{cu[i - 1],
                            length,
                            compressed,
                            length < shape.block ? 0 : (length - shape.block) / shape.stride + 1,
                            selection,
                            (length + shape.select_block - 1) / shape.select_block};
    compressed += document.compressed_count;
    selection += document.selection_count;
    documents.push_back(document);
  }
  return documents;
}

// Per-token numbers on the host, as they are built.
struct TokenNumbers {
  Numbers start, position, block;
  Numbers compressed_first, compressed_end, selection_first, selection_end;
  Numbers window_first, window_end;
};

TokenNumbers number_tokens(const std::vector<Document>& documents, const NsaShape& shape) {
  TokenNumbers n;
  for (const Document& document : documents) {
    for (std::int64_t t = 0; t < document.length; ++t) {
      const std::int64_t whole = t + 1 < shape.block ? 0 : (t + 1 - shape.block) / shape.stride + 1;
      const std::int64_t own = document.selection_first + t / shape.select_block;
      n.start.push_back(document.start);
      n.position.push_back(t);
      n.block.push_back(own);
      n.compressed_first.push_back(document.compressed_first);
      n.compressed_end.push_back(document.compressed_first + whole);
      n.selection_first.push_back(document.selection_first);
      n.selection_end.push_back(own + 1);
      n.window_first.push_back(document.start + std::max<std::int64_t>(0, t + 1 - shape.window));
      n.window_end.push_back(document.start + t + 1);
    }
  }
  return n;
}

// Where the tables go, and how.
struct Target {
  at::Device device;
  BatchCopy copy;

  at::Tensor put(const at::Tensor& host) const { return upload(host, device, copy); }
  at::Tensor put(const Numbers& values) const {
    return put(at::tensor(values, at::TensorOptions().dtype(at::kLong)));
  }
};

// Chunks of queries over keys whose intervals begin at `first` and end at `end`: both never
// decrease from query to query.
std::vector<QueryChunk>
make_chunks(const Numbers& first, const Numbers& end, std::int64_t query_chunk) {
  std::vector<QueryChunk> chunks;
  const auto tokens = static_cast<std::int64_t>(first.size());
  for (std::int64_t begin = 0; begin < tokens; begin += query_chunk) {
    const std::int64_t stop = std::min(tokens, begin + query_chunk);
    chunks.push_back({chunks.size(),
                      begin,
                      stop,
                      first[static_cast<std::size_t>(begin)],
                      end[static_cast<std::size_t>(stop - 1)]});
  }
  return chunks;
}

void fill_compressed(NsaLayout& layout,
                     const std::vector<Document>& documents,
                     const Target& target) {
  const NsaShape& shape = layout.shape;
  const std::int64_t covers = shape.block / shape.stride, none = layout.compressed_blocks;
  Numbers tokens;
  Numbers held(static_cast<std::size_t>(covers * layout.tokens), none);
  for (const Document& document : documents) {
    for (std::int64_t i = 0; i < document.compressed_count; ++i) {
      for (std::int64_t c = 0; c < shape.block; ++c) {
        const std::int64_t token = document.start + i * shape.stride + c;
        tokens.push_back(token);
        held[static_cast<std::size_t>(c / shape.stride * layout.tokens + token)] =
            document.compressed_first + i;
      }
    }
  }
  layout.block_tokens = target.put(tokens);
  layout.token_blocks = target.put(held).view({covers, layout.tokens});
}

void fill_strided(NsaLayout& layout, const std::vector<Document>& documents, const Target& target) {
  const NsaShape& shape = layout.shape;
  std::vector<std::int32_t> borders{0};
  Numbers tokens, places(static_cast<std::size_t>(layout.tokens), -1);
  for (const Document& document : documents) {
    if (document.compressed_count == 0) continue;
    for (std::int64_t i = 0; i < document.compressed_count * shape.stride; ++i) {
      const std::int64_t t = shape.block - 1 + i, token = document.start + t;
      if (t < document.length)
        places[static_cast<std::size_t>(token)] = static_cast<std::int64_t>(tokens.size());
      tokens.push_back(t < document.length ? token : -1);
    }
    borders.push_back(
        static_cast<std::int32_t>(document.compressed_first + document.compressed_count));
  }
  layout.compressed_documents = segments_of(std::move(borders), target.device, target.copy);
  layout.strided_token = target.put(tokens);
  layout.strided_place = target.put(places);
}

// Of the layout's shape, on the host.
at::Tensor make_overlap(const NsaLayout& layout, const std::vector<Document>& documents) {
  const NsaShape& shape = layout.shape;
  at::Tensor overlap = at::zeros({layout.compressed_blocks, layout.selection_blocks}, at::kFloat);
  auto cells = overlap.accessor<float, 2>();
  const std::int64_t ratio = shape.select_block / shape.stride, span = shape.block / shape.stride;
  for (const Document& document : documents)
    for (std::int64_t j = 0; j < document.selection_count; ++j)
      for (std::int64_t m = 0; m < ratio; ++m)
        for (std::int64_t n = 0; n < span; ++n) {
          const std::int64_t i = ratio * j + m - n;
          if (i >= 0 && i < document.compressed_count)
            cells[document.compressed_first + i][document.selection_first + j] += 1.0F;
        }
  return overlap;
}

void fill_pairs(NsaLayout& layout, const at::Tensor& overlap, const Target& target) {
  const at::Tensor by_selection = overlap.t();
  const std::vector<at::Tensor> cells = by_selection.nonzero().unbind(1);
  layout.pair_selection = target.put(cells[0].contiguous());
  layout.pair_compressed = target.put(cells[1].contiguous());
  layout.pair_weight = target.put(by_selection.index({cells[0], cells[1]}));
  const at::Tensor counts = by_selection.ne(0).sum(1).contiguous();
  layout.pair_begin.assign(1, 0);
  for (std::int64_t j = 0; j < layout.selection_blocks; ++j)
    layout.pair_begin.push_back(layout.pair_begin.back() +
                                counts.const_data_ptr<std::int64_t>()[j]);
}

} // namespace

NsaLayout make_nsa_layout(const Segments& borders,
                          const NsaShape& shape,
                          std::int64_t query_chunk,
                          BatchCopy copy) {
  const std::vector<std::int32_t>& cu = borders.cu_host;
  if (cu.size() < 2 || cu.front() != 0)
    internal_error("sparse attention needs cumulative document ends that begin at 0");
  const Target target{borders.cu.device(), copy};
  const std::vector<Document> documents = documents_of(cu, shape);
  const TokenNumbers n = number_tokens(documents, shape);
  NsaLayout layout;
  layout.shape = shape;
  layout.documents.cu_host = cu;
  layout.documents.cu = borders.cu;
  layout.documents.max_len = borders.max_len;
  layout.tokens = cu.back();
  layout.compressed_blocks = documents.back().compressed_first + documents.back().compressed_count;
  layout.selection_blocks = documents.back().selection_first + documents.back().selection_count;
  layout.document_start = target.put(n.start).to(at::kInt);
  layout.position = target.put(n.position).to(at::kInt);
  layout.token_block = target.put(n.block);
  const auto intervals = [&](const Numbers& first, const Numbers& end) {
    return Intervals{target.put(first), target.put(end)};
  };
  layout.compressed = intervals(n.compressed_first, n.compressed_end);
  layout.selection = intervals(n.selection_first, n.selection_end);
  layout.window = intervals(n.window_first, n.window_end);
  layout.compressed_chunks = make_chunks(n.compressed_first, n.compressed_end, query_chunk);
  layout.selection_chunks = make_chunks(n.selection_first, n.selection_end, query_chunk);
  layout.window_chunks = make_chunks(n.window_first, n.window_end, query_chunk);
  fill_compressed(layout, documents, target);
  const at::Tensor overlap = make_overlap(layout, documents);
  layout.overlap = target.put(overlap);
  if (shape.overlap_pairs) fill_pairs(layout, overlap, target);
  fill_strided(layout, documents, target);
  return layout;
}

} // namespace assay
