// A kernel that launches another one from the device (compiled with -rdc=true).
__global__ void child(int *out) { out[threadIdx.x] = threadIdx.x; }
__global__ void parent(int *out) { child<<<1, 32>>>(out); }
