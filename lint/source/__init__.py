"""Source witnesses: PTX, inline asm in C++, guards, call graph, cluster size, address owner."""
