// gated activation of two tensors: dynamic shared memory, a launch through cudaLaunchKernelEx without a cluster.
#include "../common/ptx.cuh"

namespace sample {

constexpr int kPairThreads = 128;
constexpr uint32_t kPairTileBytes = ptx::kTileRows * ptx::kTileCols * sizeof(float);

template <bool kGated>
__global__ void __launch_bounds__(kPairThreads)
    dequantize_pair_kernel(const __grid_constant__ CUtensorMap act, const __grid_constant__ CUtensorMap gate,
                           float *output, int cols) {
  extern __shared__ __align__(128) unsigned char smem[];
  float *act_tile = reinterpret_cast<float *>(smem);
  float *gate_tile = reinterpret_cast<float *>(smem + kPairTileBytes);
  uint64_t *full = reinterpret_cast<uint64_t *>(smem + 2 * kPairTileBytes);
  const int x = blockIdx.x * ptx::kTileCols;
  const int y = blockIdx.y * ptx::kTileRows;
  if (threadIdx.x == 0) ptx::mbarrier_init(full, 1);
  __syncthreads();
  ptx::load_tile_pair(act_tile, &act, gate_tile, &gate, x, y, full, kPairTileBytes, threadIdx.x == 0);
  ptx::mbarrier_wait_parity(full, 0);
  for (int i = threadIdx.x; i < ptx::kTileRows * ptx::kTileCols; i += kPairThreads) {
    const float value = kGated ? act_tile[i] * gate_tile[i] : act_tile[i] + gate_tile[i];
    output[static_cast<size_t>(y + i / ptx::kTileCols) * cols + x + i % ptx::kTileCols] = value;
  }
}

cudaError_t dequantize_pair(const CUtensorMap &act, const CUtensorMap &gate, float *output, int rows, int cols,
                            bool gated, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(cols / ptx::kTileCols, rows / ptx::kTileRows);
  config.blockDim = dim3(kPairThreads);
  config.dynamicSmemBytes = 2 * kPairTileBytes + sizeof(uint64_t);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (gated) return cudaLaunchKernelEx(&config, dequantize_pair_kernel<true>, act, gate, output, cols);
  return cudaLaunchKernelEx(&config, dequantize_pair_kernel<false>, act, gate, output, cols);
}

}  // namespace sample
