// A repair that asks the toolkit first: below CUDA 12.8 there is no shared::cta form.
#include <cuda.h>
#include <cstdint>

#if defined(FIX) && (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8))
#define WINDOW "shared::cta"
#else
#define WINDOW "shared::cluster"
#endif
#ifndef CLUSTER_X
#define CLUSTER_X 1
#endif

__global__ void __cluster_dims__(CLUSTER_X, 1, 1) fetch(const __grid_constant__ CUtensorMap map, float *y) {
  __shared__ alignas(128) float square[32 * 32];
  __shared__ alignas(8) uint64_t ready;
  uint32_t to = (uint32_t)__cvta_generic_to_shared(square), when = (uint32_t)__cvta_generic_to_shared(&ready);
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d." WINDOW ".global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(0), "r"((int)blockIdx.x * 32), "r"(when) : "memory");
  }
  __syncthreads();
  y[threadIdx.x] = square[threadIdx.x];
}
