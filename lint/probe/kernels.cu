// Kernels of the probe, compiled by NVRTC in the child process that launches them.
//
// forms.py puts `issue()`, the one instruction under test, in front of this text. Macros, all set by the probe:
//   TILE_WORDS     32-bit words that the copy writes to shared memory
//   CLUSTER_CTAS   CTAs of the cluster, 1 or 2
//   RECEIVERS      bit mask of the CTAs whose mbarrier expects the bytes
//   DESTINATION    rank whose tile CTA 0 writes to; MBARRIER: rank whose mbarrier it names; -1: the plain address
//   FRAME_BYTES    size of a local array that the kernel really uses, 0 for none

typedef unsigned int u32;
typedef unsigned long long u64;

#define POISON 0xDEADBEEFu
#define WAIT_NS 200000000ull  // a completion that never comes ends the wait, not the card

#if FRAME_BYTES
// Every word is written and read at an index the compiler does not know, so the array stays in local memory.
static __device__ __forceinline__ u32 use_frame(u32 seed) {
  volatile unsigned char frame[FRAME_BYTES];
#pragma unroll 1
  for (u32 i = seed; i < FRAME_BYTES; i += 61) frame[i] = (unsigned char)(i ^ seed);
  u32 sum = 0;
#pragma unroll 1
  for (u32 i = seed; i < FRAME_BYTES; i += 61) sum += frame[i] ^ ((i ^ seed) & 255);
  return sum;  // 0
}
#else
static __device__ __forceinline__ u32 use_frame(u32) { return 0; }
#endif

#ifdef KERNEL_FRAME
extern "C" __global__ void frame(u32 seed, u32* out) { out[threadIdx.x] = use_frame(seed); }
#endif

#ifdef KERNEL_SPIN
static __device__ u64 now_ns() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
extern "C" __global__ void spin(u64 ns) {
  for (u64 start = now_ns(); now_ns() - start < ns;) __nanosleep(1000);
}
#endif

#ifdef KERNEL_RECURSION
static __device__ __noinline__ u32 down(u32 depth, volatile u32* out) {
  volatile u32 frame[16];
  frame[depth & 15] = out[depth & 15];
  return depth ? down(depth - 1, out) + frame[depth & 15] : frame[0];
}
extern "C" __global__ void refer(u32 depth, u32* out) { out[0] = down(depth, out); }
#endif

#ifdef KERNEL_REFER
extern "C" __global__ void refer(u32 never, u32* out) {
  if (never) CALL(never);
  out[threadIdx.x] = use_frame(never);
}
#endif

#ifdef KERNEL_COPY
static __device__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
static __device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
static __device__ u32 mapped(u32 address, int rank) {
  if (rank < 0) return address;
  u32 result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}
static __device__ u32 wait_for(u32 barrier) {
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    u32 done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
    if (done) return 1;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < WAIT_NS);
  return 0;
}

#if CLUSTER_CTAS > 1
#define CLUSTER __cluster_dims__(CLUSTER_CTAS, 1, 1)
#else
#define CLUSTER
#endif

extern "C" __global__ void CLUSTER copy(const __grid_constant__ TensorMap map, const u32* source, u32* out,
                                        u32* completed) {
  __shared__ alignas(128) u32 tile[TILE_WORDS];
  __shared__ alignas(8) u64 barrier;
  const u32 tile_address = (u32)__cvta_generic_to_shared(tile);
  const u32 barrier_address = (u32)__cvta_generic_to_shared(&barrier);
  const u32 rank = CLUSTER_CTAS > 1 ? cluster_rank() : 0;

  for (u32 i = threadIdx.x; i < TILE_WORDS; i += blockDim.x) tile[i] = POISON;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_address) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0 && (RECEIVERS >> rank & 1))
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_address), "r"(TILE_WORDS * 4)
                 : "memory");
  if (CLUSTER_CTAS > 1) cluster_sync();
  if (threadIdx.x == 0 && rank == 0)
    issue(mapped(tile_address, DESTINATION), &map, source, mapped(barrier_address, MBARRIER));
  if (threadIdx.x == 0) completed[rank] = (RECEIVERS >> rank & 1) ? wait_for(barrier_address) : 0;
  __syncthreads();
  if (CLUSTER_CTAS > 1) cluster_sync();
  const u32 zero = use_frame(threadIdx.x);
  for (u32 i = threadIdx.x; i < TILE_WORDS; i += blockDim.x) out[rank * TILE_WORDS + i] = tile[i] + zero;
}
#endif
