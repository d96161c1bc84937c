// float -> fp8 with one scale a tensor: static shared memory, a plain launch.
#include <cuda_fp8.h>

#include "../common/ptx.cuh"

namespace sample {

constexpr int kThreads = 256;
constexpr uint32_t kTileBytes = ptx::kTileRows * ptx::kTileCols * sizeof(float);

__global__ void __launch_bounds__(kThreads)
    quantize_fp8_kernel(const __grid_constant__ CUtensorMap input, __nv_fp8_e4m3 *output, float scale, int cols) {
  __shared__ alignas(128) float tile[ptx::kTileRows][ptx::kTileCols];
  __shared__ alignas(8) uint64_t full;
  const int x = blockIdx.x * ptx::kTileCols;
  const int y = blockIdx.y * ptx::kTileRows;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
  __syncthreads();
  ptx::load_tile(&tile[0][0], &input, x, y, &full, kTileBytes, threadIdx.x == 0);
  ptx::mbarrier_wait_parity(&full, 0);
  for (int i = threadIdx.x; i < ptx::kTileRows * ptx::kTileCols; i += kThreads) {
    const int row = i / ptx::kTileCols;
    const int col = i % ptx::kTileCols;
    output[static_cast<size_t>(y + row) * cols + x + col] = __nv_fp8_e4m3(tile[row][col] * scale);
  }
}

void quantize_fp8(const CUtensorMap &input, __nv_fp8_e4m3 *output, float scale, int rows, int cols,
                  cudaStream_t stream) {
  const dim3 grid(cols / ptx::kTileCols, rows / ptx::kTileRows);
  quantize_fp8_kernel<<<grid, kThreads, 0, stream>>>(input, output, scale, cols);
}

}  // namespace sample
