// The inverse of a selection: for every key block the queries that selected it.
#include "kernels/nsa/selected_attention/selected_attention.h"
#include "kernels/nsa/selected_attention/selected_tensor_core.cuh"

namespace assay {

namespace {

// Calls visit(place) for every block in this lane's span; place = group T + first token.
template <class Visit>
__device__ void for_each_place(const SelectedProblem& problem, const Place& place, Visit&& visit) {
  const Spans spans = selected_spans(problem, place.t, place.group, place.lane);
  for (int key = spans.start; key < spans.end; key += problem.block_size)
    visit(place.group * problem.tokens + key);
}

__global__ void count_kernel(SelectedProblem problem, std::int32_t* counts) {
  const Place place(problem);
  if (!place.exists) return;
  for_each_place(problem, place, [&](int at) { atomicAdd(counts + at, 1); });
}

__global__ void fill_kernel(SelectedProblem problem, std::int32_t* cursor, std::int32_t* queries) {
  const Place place(problem);
  if (!place.exists) return;
  for_each_place(problem, place, [&](int at) { queries[atomicAdd(cursor + at, 1)] = place.t; });
}

} // namespace

void launch_selected_count(const SelectedProblem& problem,
                           std::int32_t* counts,
                           cudaStream_t stream) {
  if (problem.tokens > 0)
    count_kernel<<<selected_grid(problem), kWarpsPerBlock * 32, 0, stream>>>(problem, counts);
}

void launch_selected_fill(const SelectedProblem& problem,
                          std::int32_t* cursor,
                          std::int32_t* queries,
                          cudaStream_t stream) {
  if (problem.tokens > 0)
    fill_kernel<<<selected_grid(problem), kWarpsPerBlock * 32, 0, stream>>>(
        problem, cursor, queries);
}

} // namespace assay
