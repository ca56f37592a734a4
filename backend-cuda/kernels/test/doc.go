// Package kernels holds the tests of the CUDA kernels that need no GPU: the field and curve headers are compiled for the host and compared with
// gnark-crypto. The programs *_check.cu beside them run the same headers and the kernels on a GPU.
package kernels
