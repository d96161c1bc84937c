// One helper for any destination: its caller passes its own buffer, or with -DPEER=1 that of CTA 1.
#include <cuda.h>
#include <cstdint>

#ifdef FIX
#define WINDOW "shared::cta"
#else
#define WINDOW "shared::cluster"
#endif

static __device__ __forceinline__ void bring(uint32_t to, uint32_t when, const CUtensorMap *from, int at) {
  asm volatile("cp.async.bulk.tensor.1d." WINDOW ".global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2}], [%3];"
               :
               : "r"(to), "l"(from), "r"(at), "r"(when)
               : "memory");
}

__global__ void __cluster_dims__(2, 1, 1) pair(const __grid_constant__ CUtensorMap map, float *out) {
  __shared__ alignas(128) float part[128];
  __shared__ alignas(8) uint64_t done;
  uint32_t to = (uint32_t)__cvta_generic_to_shared(part);
  uint32_t when = (uint32_t)__cvta_generic_to_shared(&done);
#if PEER
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(to) : "r"(to));
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(when) : "r"(when));
#endif
  if (threadIdx.x == 0) bring(to, when, &map, 0);
  out[threadIdx.x] = part[threadIdx.x];
}
