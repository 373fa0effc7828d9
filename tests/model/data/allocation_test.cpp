// What LibTorch does where memory runs out, beside the library of the tokenizer.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace assay {
namespace allocation_test {

// An address space has 2^47 bytes. Without the program's own FLAGS_minloglevel
// (model/data/shared_flag.cpp) this aborts.
TEST(Allocation, OneThatFailsThrows) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the program at such a request";
#endif
  EXPECT_THROW(at::empty({std::int64_t{1} << 50}, at::kByte), c10::Error);
}

} // namespace allocation_test
} // namespace assay
