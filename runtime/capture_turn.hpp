#pragma once

#include "core/device.hpp"

namespace kiln {

/// Waiting for a whole GPU is forbidden while any thread captures one of its streams, and trying it spoils that
/// capture. So the two take turns: a capture of Kiln's holds one of these from begin to end.
class CaptureTurn {
 public:
  /// Blocks while a thread waits for the device or for its turn to, so that captures which follow one another without
  /// end hold nobody up; not for the latter in a thread that captures already.
  explicit CaptureTurn(Device device);
  ~CaptureTurn();
  CaptureTurn(const CaptureTurn&) = delete;
  CaptureTurn& operator=(const CaptureTurn&) = delete;

 private:
  Device device_;
};

/// Held while a thread waits for the device.
class DeviceWaitTurn {
 public:
  /// Blocks until no stream of the device is being captured. DeviceError when that takes half a minute: the capture may
  /// be waiting for this thread.
  explicit DeviceWaitTurn(Device device);
  ~DeviceWaitTurn();
  DeviceWaitTurn(const DeviceWaitTurn&) = delete;
  DeviceWaitTurn& operator=(const DeviceWaitTurn&) = delete;

 private:
  Device device_;
};

}  // namespace kiln
