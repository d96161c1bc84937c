
// ---- host: one launch, its data, the stack limit and the free memory before and after ----
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    const auto code = (call);                                                            \
    if (code != 0) {                                                                     \
      std::printf("%s returned %d\n", #call, static_cast<int>(code));                    \
      return 1;                                                                          \
    }                                                                                    \
  } while (0)

template <typename Function>
static Function driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found)) return nullptr;
  return reinterpret_cast<Function>(address);
}

int main() {
  u32 *source, *out;
  const size_t out_bytes = (CLUSTER_CTAS * TILE_WORDS + CLUSTER_CTAS) * sizeof(u32);
  CHECK(cudaMalloc(&source, sizeof(host_source)));
  CHECK(cudaMalloc(&out, out_bytes));
  for (u32 i = 0; i < sizeof(host_source) / sizeof(u32); ++i) host_source[i] = i + 1;
  CHECK(cudaMemcpy(source, host_source, sizeof(host_source), cudaMemcpyHostToDevice));
  TensorMap map{};
#if FORM_DIMS
  CUtensorMap encoded;
  CHECK(encode(&encoded, source));
  std::memcpy(&map, &encoded, sizeof(map));
#endif
  size_t limit_before, limit_after, free_before, free_after, total;
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, copy));
  CHECK(cudaDeviceGetLimit(&limit_before, cudaLimitStackSize));
  CHECK(cudaMemGetInfo(&free_before, &total));
  copy<<<CLUSTER_CTAS, 32>>>(map, source, out, out + CLUSTER_CTAS * TILE_WORDS);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceGetLimit(&limit_after, cudaLimitStackSize));
  CHECK(cudaMemGetInfo(&free_after, &total));
  static u32 result[CLUSTER_CTAS * TILE_WORDS];
  CHECK(cudaMemcpy(result, out, sizeof(result), cudaMemcpyDeviceToHost));
  bool same = true;
  for (u32 i = 0; i < CLUSTER_CTAS * TILE_WORDS; ++i) same = same && result[i] == host_expected[i % TILE_WORDS];
  std::printf("shared::%s  data %s  local memory %zu B  stack limit %zu -> %zu B  device memory %.0f MiB\n", SPELLING,
              same ? "right" : "WRONG", attributes.localSizeBytes, limit_before, limit_after,
              (static_cast<double>(free_before) - static_cast<double>(free_after)) / (1 << 20));
  return same ? 0 : 1;
}
