// One kernel that copies a tile with the cluster form, one that does not: the smallest fatbin worth reading.
#include <cstdint>

struct Map { alignas(64) char bytes[128]; };

__global__ void copies(const __grid_constant__ Map map, int x) {
  __shared__ alignas(128) char tile[4096];
  __shared__ uint64_t bar;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
          (uint32_t)__cvta_generic_to_shared(tile)),
      "l"(&map), "r"(x), "r"((uint32_t)__cvta_generic_to_shared(&bar))
      : "memory");
#endif
}

__global__ void plain(int *out) { out[threadIdx.x] = threadIdx.x; }
