#include <cstdio>
#include <cassert>
#include <cstdint>

__device__ __noinline__ int depth(int n) { return n <= 1 ? 1 : n * depth(n - 1) + (n & 3); }
typedef int (*Step)(int);
__device__ __noinline__ int add_one(int x) { return x + 1; }
__device__ __noinline__ int twice(int x) { return x * 2; }
__device__ Step steps[2] = {add_one, twice};
__device__ __noinline__ void say(int x) { printf("value %d\n", x); }

__global__ void plain(int *out) { out[threadIdx.x] = threadIdx.x; }
__global__ void prints(int *out) { say(out[threadIdx.x]); }
__global__ void allocates(int **out) { out[0] = (int *)malloc(64); free(out[1]); }
__global__ void asserts(int *out) { assert(out[0] == 1); }
__global__ void recurses(int *out, int n) { out[0] = depth(n); }
__global__ void points(int *out, int n) { out[0] = steps[n & 1](n); }
__global__ void __launch_bounds__(256, 2) bounded(float *out) { __shared__ float tile[512]; tile[threadIdx.x] = out[threadIdx.x]; __syncthreads(); out[threadIdx.x] = tile[511 - threadIdx.x]; }
__global__ void framed(int *out, int n) { volatile int local[128]; for (int i = 0; i < n; i++) local[i & 127] = i; out[0] = local[n & 127]; }
#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
__global__ void __cluster_dims__(2, 1, 1) clustered(int *out) { out[threadIdx.x] = 7; }
__global__ void __launch_bounds__(128, 1, 4) ranked(int *out) { out[threadIdx.x] = 9; }
struct Map { alignas(64) char bytes[128]; };
__device__ __forceinline__ void load_tile(uint32_t dst, const Map *map, uint32_t bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(dst), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
__device__ __noinline__ void load_row(uint32_t dst, const void *src, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" :: "r"(dst), "l"(src), "r"(bar) : "memory");
}
__global__ void copies_tile(const __grid_constant__ Map map, int x) {
  __shared__ alignas(128) char tile[4096]; __shared__ uint64_t bar;
  load_tile((uint32_t)__cvta_generic_to_shared(tile), &map, (uint32_t)__cvta_generic_to_shared(&bar), x, 0);
}
template <int N> __global__ void copies_both(const __grid_constant__ Map map, const void *src, int x) {
  __shared__ alignas(128) char tile[4096]; __shared__ uint64_t bar;
  uint32_t b = (uint32_t)__cvta_generic_to_shared(&bar), t = (uint32_t)__cvta_generic_to_shared(tile);
  load_tile(t, &map, b, x, N); load_row(t, src, b); if (x == 77) printf("both %d\n", x);
}
template __global__ void copies_both<1>(const __grid_constant__ Map, const void *, int);
template __global__ void copies_both<2>(const __grid_constant__ Map, const void *, int);
#endif
