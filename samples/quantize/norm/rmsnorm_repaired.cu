// The repaired form: the copy names the CTA's own memory where the toolkit can (CUDA 12.8, PTX ISA 8.6).
#include <cstdint>

namespace sample {

#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)
#define SAMPLE_OWN_MEMORY "shared::cta"
#else
#define SAMPLE_OWN_MEMORY "shared::cluster"
#endif

constexpr int kRow = 1024;

__global__ void __launch_bounds__(256) rmsnorm_kernel(const float *input, float *output) {
  __shared__ alignas(128) float row[kRow];
  __shared__ alignas(8) uint64_t full;
  const uint32_t dst = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  const uint32_t mbar = static_cast<uint32_t>(__cvta_generic_to_shared(&full));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(mbar) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbar), "r"(kRow * 4) : "memory");
    asm volatile("cp.async.bulk." SAMPLE_OWN_MEMORY ".global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     dst),
                 "l"(input + static_cast<size_t>(blockIdx.x) * kRow), "r"(kRow * 4), "r"(mbar)
                 : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n\t.reg .pred done;\n\tWAIT_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n\t"
      "@!done bra WAIT_%=;\n\t}" ::"r"(mbar)
      : "memory");
  float sum = 0;
  for (int i = 0; i < kRow; ++i) sum += row[i] * row[i];
  for (int i = threadIdx.x; i < kRow; i += 256) {
    output[static_cast<size_t>(blockIdx.x) * kRow + i] = row[i] * rsqrtf(sum / kRow);
  }
}

void rmsnorm(const float *input, float *output, int rows, cudaStream_t stream) {
  rmsnorm_kernel<<<rows, 256, 0, stream>>>(input, output);
}

}  // namespace sample
