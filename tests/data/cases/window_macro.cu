// The smallest reproducer: build it with and without -DCTA_WINDOW and compare the memory in use.
#include <cuda.h>
#include <cstdio>

#ifdef CTA_WINDOW
#define DESTINATION "shared::cta"
#else
#define DESTINATION "shared::cluster"
#endif

__global__ void once(const __grid_constant__ CUtensorMap map, float *out) {
  extern __shared__ __align__(128) unsigned char memory[];
  float *tile = reinterpret_cast<float *>(memory);
  __shared__ unsigned long long bar;
  unsigned to = (unsigned)__cvta_generic_to_shared(tile), when = (unsigned)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(when));
    asm volatile("cp.async.bulk.tensor.2d." DESTINATION ".global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(0), "r"(0), "r"(when) : "memory");
  }
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

int main() {
  CUtensorMap map{};
  float *out;
  cudaMalloc(&out, 4096);
  once<<<1, 1024, 4096>>>(map, out);
  std::printf("%s: %s\n", DESTINATION, cudaGetErrorString(cudaDeviceSynchronize()));
}
