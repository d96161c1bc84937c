// Copies whose destination is known by construction; the order is that of the assertions in test_ptxflow.py.
#include <cuda.h>

#include <cstdint>

#define COPY(destination, map, coordinate, barrier)                                                        \
  asm volatile(                                                                                             \
      "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" \
      ::"r"(destination), "l"(map), "r"(coordinate), "r"(barrier) : "memory")

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Local: both kernels pass stages of their own memory.
__device__ __noinline__ void load(uint32_t destination, const CUtensorMap* map, uint32_t barrier, int c) {
  COPY(destination, map, c, barrier);
}

template <int kStages>
__global__ void staged(const __grid_constant__ CUtensorMap map, float* out, int n) {
  extern __shared__ char pool[];
  __shared__ uint64_t barriers[kStages];
  const uint32_t base = (shared_address(pool) + 1023) & ~1023u;
  for (int i = 0; i < n; ++i) {
    load(base + i % kStages * 4096, &map, shared_address(barriers) + i % kStages * 8, i);
  }
  out[threadIdx.x] = pool[threadIdx.x];
}
template __global__ void staged<3>(const __grid_constant__ CUtensorMap, float*, int);
template __global__ void staged<4>(const __grid_constant__ CUtensorMap, float*, int);

__global__ void pairs(const __grid_constant__ CUtensorMap map, float* out, uint32_t given) {
  __shared__ alignas(128) char tile[1024];
  __shared__ uint64_t barrier;
  const uint32_t t = shared_address(tile), b = shared_address(&barrier);
  uint32_t rank, peer;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(t), "r"(rank ^ 1));
  COPY(peer, &map, 0, b);                // peer
  COPY(t & 0xFEFFFFFFu, &map, 0, b);     // peer
  COPY(t, &map, 0, b & 0xFEFFFFFFu);     // local, mbarrier of a peer
  COPY(given, &map, 0, b);               // unknown
  out[0] = tile[0];
}
