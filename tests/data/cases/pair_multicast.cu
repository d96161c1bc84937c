// Two CTAs share one load: shared::cluster is what this needs.
#include <cuda.h>
#include <cstdint>

__global__ void __cluster_dims__(2, 1, 1) both(const __grid_constant__ CUtensorMap map, float *y) {
  __shared__ alignas(128) float square[32 * 32];
  __shared__ alignas(8) uint64_t ready;
  uint32_t to = (uint32_t)__cvta_generic_to_shared(square), when = (uint32_t)__cvta_generic_to_shared(&ready);
  uint32_t own;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(own));
  if (own == 0 && threadIdx.x == 0) {
    const uint16_t everyone = 0b11;
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(&map), "r"(0), "r"(0), "r"(when), "h"(everyone) : "memory");
  }
  y[threadIdx.x] = square[threadIdx.x];
}
