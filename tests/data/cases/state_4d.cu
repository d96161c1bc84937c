// A tensor load of rank 4 in a kernel without any cluster attribute, launched with <<<>>>.
#include <cuda.h>
#include <cstdint>

#ifndef FIX
#define WINDOW "shared::cluster"
#else
#define WINDOW "shared::cta"
#endif

__device__ inline uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__global__ void scan_state(const __grid_constant__ CUtensorMap states, float *last) {
  __shared__ alignas(128) float tile[8][64];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(shared_address(&full)));
    asm volatile(
        "cp.async.bulk.tensor.4d." WINDOW ".global.tile"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
        : : "r"(shared_address(tile)), "l"(&states), "r"(shared_address(&full)),
            "r"(0), "r"(0), "r"((int)blockIdx.y), "r"((int)blockIdx.x)
        : "memory");
  }
  __syncthreads();
  last[threadIdx.x] = tile[0][threadIdx.x];
}

void step(const CUtensorMap &map, float *last, cudaStream_t stream) {
  scan_state<<<dim3(4, 4), 64, 0, stream>>>(map, last);
}
