#pragma once

/// Bytes of the CPU's widest vector registers. Kernels are parsed for any CPU: their compiler sets it.
extern "C" const int kiln_vector_bytes;
