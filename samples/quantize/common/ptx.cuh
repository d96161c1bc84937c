// Thin wrappers of the PTX that the kernels of this sample use: mbarrier, tensor copies, their common pairs.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace sample {
namespace ptx {

constexpr int kTileRows = 32;
constexpr int kTileCols = 64;

__device__ __forceinline__ uint32_t smem_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void mbarrier_init(uint64_t *mbar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(mbar)), "r"(count) : "memory");
}

__device__ __forceinline__ void mbarrier_expect_tx(uint64_t *mbar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(mbar)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void mbarrier_wait_parity(uint64_t *mbar, uint32_t parity) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "WAIT_%=:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra WAIT_%=;\n\t"
      "}" ::"r"(smem_address(mbar)),
      "r"(parity)
      : "memory");
}

// A tile from global memory to shared memory.
__device__ __forceinline__ void tensor_2d_global_to_shared(void *dst, const CUtensorMap *map, int x, int y,
                                                           uint64_t *mbar) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(smem_address(dst)),
      "l"(map), "r"(x), "r"(y), "r"(smem_address(mbar))
      : "memory");
#endif
}

// A tile from shared memory to global memory.
__device__ __forceinline__ void tensor_2d_shared_to_global(const CUtensorMap *map, int x, int y, const void *src) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
               "r"(y), "r"(smem_address(src))
               : "memory");
  asm volatile("cp.async.bulk.commit_group;");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// One thread starts the copy and announces its bytes.
__device__ __forceinline__ void load_tile(void *dst, const CUtensorMap *map, int x, int y, uint64_t *mbar,
                                          uint32_t bytes, bool elected) {
  if (elected) {
    mbarrier_expect_tx(mbar, bytes);
    tensor_2d_global_to_shared(dst, map, x, y, mbar);
  }
}

// Two tiles behind one mbarrier.
__device__ __forceinline__ void load_tile_pair(void *dst_a, const CUtensorMap *map_a, void *dst_b,
                                               const CUtensorMap *map_b, int x, int y, uint64_t *mbar,
                                               uint32_t bytes, bool elected) {
  if (elected) {
    mbarrier_expect_tx(mbar, 2 * bytes);
    tensor_2d_global_to_shared(dst_a, map_a, x, y, mbar);
    tensor_2d_global_to_shared(dst_b, map_b, x, y, mbar);
  }
}

}  // namespace ptx
}  // namespace sample
