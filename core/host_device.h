// Defines CAPSTAN_HD, the mark of functions that compile for host and device alike.
#pragma once

#ifdef __CUDACC__
#define CAPSTAN_HD __host__ __device__
#else
#define CAPSTAN_HD
#endif
