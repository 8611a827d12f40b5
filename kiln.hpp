#pragma once

/// Everything a user of the library needs: tensors, dispatch, the registry, devices and errors.
#include "core/attributes.hpp"
#include "core/config.hpp"
#include "core/dlpack.hpp"
#include "core/dtype.hpp"
#include "core/environment.hpp"
#include "core/errors.hpp"
#include "core/tensor.hpp"
#include "registry/dispatch.hpp"
#include "registry/registry.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event_timer.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"
