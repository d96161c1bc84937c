// What else is addressed to a cluster: none of these but the last calls the driver.
#include <cuda.h>
#include <cstdint>

#ifndef OP
#define OP 0
#endif

__global__ void __cluster_dims__(2, 1, 1) talk(const __grid_constant__ CUtensorMap map, float *y, uint32_t who) {
  __shared__ alignas(128) float square[32 * 32];
  __shared__ alignas(8) uint64_t ready;
  uint32_t own = (uint32_t)__cvta_generic_to_shared(square), own_bar = (uint32_t)__cvta_generic_to_shared(&ready);
  uint32_t far, far_bar;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(own), "r"(who));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far_bar) : "r"(own_bar), "r"(who));
#if OP == 1
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
               ::"r"(far), "r"(own), "r"(far_bar) : "memory");
#elif OP == 2
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
               ::"r"(far), "r"(1), "r"(far_bar) : "memory");
#elif OP == 3
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far_bar) : "memory");
#elif OP == 4
  asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], 256, [%2];"
               ::"r"(far), "r"(own), "r"(far_bar) : "memory");
#elif OP == 5
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(y), "r"(own) : "memory");
#elif OP == 6
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(0), "r"(0));
#elif OP == 7
  asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %2, %2, %2, %2}], [%3];" ::"r"(own), "l"(&map), "r"(0), "r"(own_bar) : "memory");
#elif OP == 8
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %2, %2, %2, %2}], [%3];" ::"r"(own), "l"(&map), "r"(0), "r"(own_bar) : "memory");
#elif OP == 9
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.L2::cache_hint"
               " [%0], [%1, {%2, %2, %2, %2}], [%3], {%4, %4}, %5;"
               ::"r"(own), "l"(&map), "r"(0), "r"(own_bar), "h"((uint16_t)0), "l"(0x14F0000000000000ull) : "memory");
#endif
  y[threadIdx.x] = square[threadIdx.x];
}
