// Producer and consumer warps with setmaxnreg; the producer's one tensor load undoes both register moves.
#include <cuda.h>
#include <cstdint>

#ifdef FIX
#define WINDOW "shared::cta"
#else
#define WINDOW "shared::cluster"
#endif

__global__ void __launch_bounds__(384, 1) roles(const __grid_constant__ CUtensorMap a, float *c) {
  __shared__ alignas(1024) float stage[2][512];
  __shared__ alignas(8) uint64_t full[2];
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"((uint32_t)__cvta_generic_to_shared(full)));
  __syncthreads();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#if !defined(NO_LOAD)
    if (threadIdx.x == 0) {
      uint32_t to = (uint32_t)__cvta_generic_to_shared(stage[1]);
      uint32_t when = (uint32_t)__cvta_generic_to_shared(full);
      asm volatile("cp.async.bulk.tensor.2d." WINDOW ".global.mbarrier::complete_tx::bytes"
                   " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&a), "r"(0), "r"(0), "r"(when) : "memory");
    }
#endif
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    c[threadIdx.x] = stage[1][threadIdx.x];
  }
}
