#pragma once

// A user's header that has the path of one of Kiln's.
inline int users_own_tensor() {
  return 1;
}
