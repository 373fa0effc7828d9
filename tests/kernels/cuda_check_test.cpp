#include "kernels/cuda_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/names.h"

namespace cuda_check_test {

assay::Failure failure_of(cudaError_t status) {
  try {
    assay::check_cuda(status, "a launch");
  } catch (const assay::Failure& failure) {
    return failure;
  }
  return {assay::Failure::Kind::Internal, "none"};
}

TEST(CudaCheck, NamesTheCallAndItsPlace) {
  const assay::Failure failure = failure_of(cudaErrorLaunchFailure);
  EXPECT_EQ(failure.kind(), assay::Failure::Kind::Internal);
  EXPECT_THAT(failure.what(), assay::test::names("cuda_check_test.cpp:", "a launch"));
  EXPECT_STREQ(failure_of(cudaSuccess).what(), "none");
}

// The programs of a first build are made for the GPUs of one machine.
TEST(CudaCheck, ProgramsForOtherGpusAreNamedAsSuch) {
  const assay::Failure failure = failure_of(cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(failure.kind(), assay::Failure::Kind::BadInput);
  EXPECT_THAT(failure.what(), assay::test::names("other GPUs", "make build"));
}

} // namespace cuda_check_test
