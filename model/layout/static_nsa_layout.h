// An NsaLayout of fixed addresses and sizes, which takes the layouts of one batch after another:
// for a captured step. It has what the kernels of a GPU read, and nothing of the tensor operations
// (chunks, overlap, selection and window).
#pragma once

#include <memory>

#include "model/layout/nsa_layout.h"

namespace assay {

// Room for `documents.cu.size(0) - 1` documents of at most `documents.max_len` tokens, and so for
// T / d compressed blocks. Its borders are those of `documents`, which are shared, not copied.
std::shared_ptr<NsaLayout> make_static_nsa_layout(const NsaLayout& like, const Segments& documents);

// Copies on the current stream. Blocks that `from` lacks average token 0 and belong to no document,
// their places hold no query.
void load_nsa_layout(NsaLayout& to, const NsaLayout& from);

} // namespace assay
