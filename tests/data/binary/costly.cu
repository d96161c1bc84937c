// An array of a thread that registers cannot hold, and registers handed over at run time.
extern "C" __global__ void __launch_bounds__(384, 1) costly(float *p, int n) {
  float a[32];
  for (int i = 0; i < 32; i++) a[i] = p[i + threadIdx.x];
  for (int i = 0; i < n; i++) a[i & 31] += a[(i * 7) & 31];
#ifdef WITH_SETMAXNREG
  if (threadIdx.x < 128)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#endif
  for (int i = 0; i < 32; i++) p[i] = a[i];
}
extern "C" __global__ void cheap(float *p) { p[threadIdx.x] = 1.0f; }
