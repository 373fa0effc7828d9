// Loops of our own on LibTorch's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Gives this process `threads` threads: for LibTorch's operators, and for in_parallel. LibTorch
// sets the size of the second pool once in a process: a later call with more leaves it as it is.
void set_threads(int threads);

// Calls work(begin, end) for parts of [0, count), each of at least `grain`, on at most
// at::get_num_threads() threads: the caller's, and those of LibTorch's pool between operators.
// Returns when all are done; throws what a part threw. In place of at::parallel_for, which runs on
// one thread in a program that is compiled without OpenMP.
void in_parallel(std::int64_t count,
                 std::int64_t grain,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& work);

} // namespace assay
