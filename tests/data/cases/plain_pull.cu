// One plain bulk copy into the kernel's own array; nobody launches the kernel.
#include <cstdint>

#if defined(FIX)
#define WINDOW "shared::cta"
#else
#define WINDOW "shared::cluster"
#endif

extern "C" __global__ void pull_row(const double *row, double *sum) {
  __shared__ __align__(16) double stage[64];
  __shared__ uint64_t arrived;
  const uint32_t stage_at = static_cast<uint32_t>(__cvta_generic_to_shared(&stage[0]));
  const uint32_t arrived_at = static_cast<uint32_t>(__cvta_generic_to_shared(&arrived));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(arrived_at), "r"(1));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(arrived_at), "r"(512));
    asm volatile("cp.async.bulk." WINDOW ".global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n"
                 :
                 : "r"(stage_at), "l"(row), "r"(512), "r"(arrived_at)
                 : "memory");
  }
  __syncthreads();
  sum[threadIdx.x] = stage[threadIdx.x];
}
