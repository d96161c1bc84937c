// cast and transpose with one producer warp group that gives its registers to the consumers.
#include "../common/ptx.cuh"

namespace sample {

constexpr int kGroup = 128;
constexpr uint32_t kTransposeBytes = ptx::kTileRows * ptx::kTileCols * sizeof(float);

// setmaxnreg exists on architecture-specific targets only.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
#define SAMPLE_HAS_SETMAXNREG 1
#endif

template <int kCount>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
#ifdef SAMPLE_HAS_SETMAXNREG
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

template <int kCount>
__device__ __forceinline__ void warpgroup_reg_alloc() {
#ifdef SAMPLE_HAS_SETMAXNREG
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

__global__ void __launch_bounds__(2 * kGroup, 1)
    cast_transpose_kernel(const __grid_constant__ CUtensorMap input, const __grid_constant__ CUtensorMap output) {
  __shared__ alignas(128) float tile[ptx::kTileRows * ptx::kTileCols];
  __shared__ alignas(128) float turned[ptx::kTileCols * ptx::kTileRows];
  __shared__ alignas(8) uint64_t full;
  const int x = blockIdx.x * ptx::kTileCols;
  const int y = blockIdx.y * ptx::kTileRows;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x < kGroup) {
    warpgroup_reg_dealloc<40>();
    ptx::load_tile(tile, &input, x, y, &full, kTransposeBytes, threadIdx.x == 0);
  } else {
    warpgroup_reg_alloc<232>();
    ptx::mbarrier_wait_parity(&full, 0);
    for (int i = threadIdx.x - kGroup; i < ptx::kTileRows * ptx::kTileCols; i += kGroup) {
      turned[(i % ptx::kTileCols) * ptx::kTileRows + i / ptx::kTileCols] = tile[i];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) ptx::tensor_2d_shared_to_global(&output, y, x, turned);
}

void cast_transpose(const CUtensorMap &input, const CUtensorMap &output, int rows, int cols, cudaStream_t stream) {
  const dim3 grid(cols / ptx::kTileCols, rows / ptx::kTileRows);
  cast_transpose_kernel<<<grid, 2 * kGroup, 0, stream>>>(input, output);
}

}  // namespace sample
