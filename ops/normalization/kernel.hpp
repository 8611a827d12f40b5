#pragma once

#include "ops/normalization/kernel_norm.hpp"
#include "ops/normalization/kernel_softmax.hpp"
