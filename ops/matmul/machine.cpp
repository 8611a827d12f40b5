#include "ops/matmul/machine.hpp"

#include <algorithm>
#include <string_view>

namespace kiln::matmul {

Machine machine_of(const Target& target) {
  const std::string_view arch = target.arch;
  if (arch.starts_with("sm_80") || arch.starts_with("sm_87")) return {108, 163 * 1024};
  if (arch.starts_with("sm_86")) return {84, 99 * 1024};
  if (arch.starts_with("sm_89")) return {142, 99 * 1024};
  if (arch.starts_with("sm_12")) return {188, 99 * 1024};
  if (arch.starts_with("sm_10")) return {148, 227 * 1024};
  return {132, kSm90SharedBytes};
}

std::int64_t usable_processors(const MatmulCall& call, const Target& target) {
  const std::int64_t all = call.processors > 0 ? call.processors : machine_of(target).processors;
  return call.num_sms > 0 ? std::min(call.num_sms, all) : all;
}

std::int64_t usable_in_clusters(const MatmulCall& call, const Target& target) {
  const std::int64_t all = usable_processors(call, target);
  // Where the device is not known: what clusters of four and of eight reach of an H200's 132.
  return std::min(all, call.cluster_processors > 0 ? call.cluster_processors : machine_of(target).processors * 10 / 11);
}

}  // namespace kiln::matmul
