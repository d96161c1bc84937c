// Two CTAs of a cluster read one operand tile with a multicast copy: the call of the driver is not a mistake here.
#include "../common/ptx.cuh"

namespace sample {

constexpr int kGemmThreads = 128;
constexpr uint32_t kOperandBytes = ptx::kTileRows * ptx::kTileCols * sizeof(float);

__device__ __forceinline__ void tensor_2d_multicast(void *dst, const CUtensorMap *map, int x, int y,
                                                    uint64_t *mbar, uint16_t cta_mask) {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(ptx::smem_address(dst)),
      "l"(map), "r"(x), "r"(y), "r"(ptx::smem_address(mbar)), "h"(cta_mask)
      : "memory");
#endif
}

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__global__ void __launch_bounds__(kGemmThreads)
    shared_operand_kernel(const __grid_constant__ CUtensorMap operand, float *output) {
  __shared__ alignas(128) float tile[ptx::kTileRows * ptx::kTileCols];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_expect_tx(&full, kOperandBytes);
  }
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0 && cluster_rank() == 0) tensor_2d_multicast(tile, &operand, 0, 0, &full, 0x3);
  ptx::mbarrier_wait_parity(&full, 0);
  output[blockIdx.x * kGemmThreads + threadIdx.x] = tile[threadIdx.x];
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

cudaError_t shared_operand(const CUtensorMap &operand, float *output, int ctas, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(ctas);
  config.blockDim = dim3(kGemmThreads);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, shared_operand_kernel, operand, output);
}

}  // namespace sample
