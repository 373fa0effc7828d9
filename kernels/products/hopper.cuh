// Instructions of compute capability 9.0 that its products use, under plain names: barriers in
// shared memory, copies of boxes, products of warp groups. PTX ISA 8.8, sections 9.7.9, 9.7.13 and
// 9.7.15.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace assay::hopper {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- Barriers ------------------------------------------------------------------------------------

__device__ __forceinline__ void begin_barrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}
// Barriers that the thread began become visible to copies.
__device__ __forceinline__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ __forceinline__ void arrive_expecting(std::uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Until the phase of this parity is over.
__device__ __forceinline__ void wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}\n" ::"r"(shared_address(barrier)),
               "r"(parity)
               : "memory");
}
// Barriers by number, of `threads` threads that wait or only arrive.
__device__ __forceinline__ void wait_named(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_named(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// --- Copies --------------------------------------------------------------------------------------

// The map's box at (column, row) to shared memory; its bytes count on the barrier.
__device__ __forceinline__ void
copy_box(void* to, const CUtensorMap& map, int column, int row, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)),
      "r"(column),
      "r"(row),
      "r"(shared_address(barrier))
      : "memory");
}
// From shared memory to the map's box at (column, row).
__device__ __forceinline__ void
put_box(const CUtensorMap& map, int column, int row, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          reinterpret_cast<std::uint64_t>(&map)),
      "r"(column),
      "r"(row),
      "r"(shared_address(from))
      : "memory");
}
__device__ __forceinline__ void end_puts() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until at most `kPending` of the thread's groups of puts still read shared memory.
template <int kPending> __device__ __forceinline__ void wait_reads_of_shared() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// What a thread wrote to shared memory becomes visible to copies.
__device__ __forceinline__ void show_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- Products of a warp group --------------------------------------------------------------------

template <int kRegisters> __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> __device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most `kPending` groups of products are left.
template <int kPending> __device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// An operand whose packed dimension is the product's rows or columns: boxes of 64 of them by 64 of
// the inner dimension in 16 bits, each of 8 KiB and swizzled over 128 bytes, one after another.
__device__ __forceinline__ std::uint64_t operand(const void* boxes) {
  constexpr std::uint64_t kBox = 8192, kEightRows = 1024, kSwizzle128 = 1;
  return (static_cast<std::uint64_t>(shared_address(boxes)) & 0x3ffff) >> 4 | kBox >> 4 << 16 |
         kEightRows >> 4 << 32 | kSwizzle128 << 62;
}
constexpr std::uint64_t kNext16 = 2048 >> 4; // what leads an operand 16 inner steps on

// d [64, 192] += left^T right over 16 inner steps. The thread has rows r and r + 8 of its warp's
// 16, with lane = 4 r + c: d[4 j], d[4 j + 1] are columns 8 j + 2 c and the next of row r, the
// other two those of row r + 8.
__device__ __forceinline__ void
multiply_64_192(float (&d)[96], std::uint64_t left, std::uint64_t right, bool add) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %98, 0; "
               "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
               "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
               "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "
               "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
               "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
               "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "
               "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
               "%96, %97, p, 1, 1, 1, 1;}"
               : "+f"(d[0]),
                 "+f"(d[1]),
                 "+f"(d[2]),
                 "+f"(d[3]),
                 "+f"(d[4]),
                 "+f"(d[5]),
                 "+f"(d[6]),
                 "+f"(d[7]),
                 "+f"(d[8]),
                 "+f"(d[9]),
                 "+f"(d[10]),
                 "+f"(d[11]),
                 "+f"(d[12]),
                 "+f"(d[13]),
                 "+f"(d[14]),
                 "+f"(d[15]),
                 "+f"(d[16]),
                 "+f"(d[17]),
                 "+f"(d[18]),
                 "+f"(d[19]),
                 "+f"(d[20]),
                 "+f"(d[21]),
                 "+f"(d[22]),
                 "+f"(d[23]),
                 "+f"(d[24]),
                 "+f"(d[25]),
                 "+f"(d[26]),
                 "+f"(d[27]),
                 "+f"(d[28]),
                 "+f"(d[29]),
                 "+f"(d[30]),
                 "+f"(d[31]),
                 "+f"(d[32]),
                 "+f"(d[33]),
                 "+f"(d[34]),
                 "+f"(d[35]),
                 "+f"(d[36]),
                 "+f"(d[37]),
                 "+f"(d[38]),
                 "+f"(d[39]),
                 "+f"(d[40]),
                 "+f"(d[41]),
                 "+f"(d[42]),
                 "+f"(d[43]),
                 "+f"(d[44]),
                 "+f"(d[45]),
                 "+f"(d[46]),
                 "+f"(d[47]),
                 "+f"(d[48]),
                 "+f"(d[49]),
                 "+f"(d[50]),
                 "+f"(d[51]),
                 "+f"(d[52]),
                 "+f"(d[53]),
                 "+f"(d[54]),
                 "+f"(d[55]),
                 "+f"(d[56]),
                 "+f"(d[57]),
                 "+f"(d[58]),
                 "+f"(d[59]),
                 "+f"(d[60]),
                 "+f"(d[61]),
                 "+f"(d[62]),
                 "+f"(d[63]),
                 "+f"(d[64]),
                 "+f"(d[65]),
                 "+f"(d[66]),
                 "+f"(d[67]),
                 "+f"(d[68]),
                 "+f"(d[69]),
                 "+f"(d[70]),
                 "+f"(d[71]),
                 "+f"(d[72]),
                 "+f"(d[73]),
                 "+f"(d[74]),
                 "+f"(d[75]),
                 "+f"(d[76]),
                 "+f"(d[77]),
                 "+f"(d[78]),
                 "+f"(d[79]),
                 "+f"(d[80]),
                 "+f"(d[81]),
                 "+f"(d[82]),
                 "+f"(d[83]),
                 "+f"(d[84]),
                 "+f"(d[85]),
                 "+f"(d[86]),
                 "+f"(d[87]),
                 "+f"(d[88]),
                 "+f"(d[89]),
                 "+f"(d[90]),
                 "+f"(d[91]),
                 "+f"(d[92]),
                 "+f"(d[93]),
                 "+f"(d[94]),
                 "+f"(d[95])
               : "l"(left), "l"(right), "r"(static_cast<int>(add)));
}

} // namespace assay::hopper
