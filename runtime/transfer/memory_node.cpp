#include "runtime/transfer/memory_node.hpp"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstddef>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace kiln {
namespace {

constexpr std::int64_t kPageBytes = 4096;
/// Less than this is not worth a thread.
constexpr std::int64_t kThreadBytes = std::int64_t{64} << 20;
/// Page making stops growing with threads about here: the kernel zeroes at memory speed.
constexpr std::int64_t kMaxThreads = 16;

/// False where the system refuses, as container runtimes make it do.
bool prefer_node(void* memory, std::int64_t size_bytes, int node) noexcept {
  constexpr int kMaskBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 16> mask{};
  if (node >= static_cast<int>(mask.size()) * kMaskBits) return false;
  mask[static_cast<std::size_t>(node / kMaskBits)] = 1UL << (node % kMaskBits);
  // The kernel takes the number of bits plus one.
  return syscall(SYS_mbind, memory, static_cast<unsigned long>(size_bytes), MPOL_PREFERRED, mask.data(),
                 mask.size() * kMaskBits + 1, 0U) == 0;
}

/// Keeps the calling thread on the node's processors, so that what it touches first lies there.
void move_to_node(int node) noexcept {
  try {
    std::ifstream list(fmt::format("/sys/devices/system/node/node{}/cpulist", node));
    std::string text;
    std::getline(list, text);
    cpu_set_t processors;
    CPU_ZERO(&processors);
    for (const int processor : parse_processor_list(text))
      if (processor < CPU_SETSIZE) CPU_SET(processor, &processors);
    if (CPU_COUNT(&processors) > 0) sched_setaffinity(0, sizeof(processors), &processors);
  } catch (const std::exception&) {
    return;  // it was a wish
  }
}

void touch(std::byte* first, std::byte* last) noexcept {
  for (volatile std::byte* page = first; page < last; page += kPageBytes) *page = std::byte{0};
}

}  // namespace

void make_pages(void* memory, std::int64_t size_bytes, int node) {
  auto* const begin = static_cast<std::byte*>(memory);
  const bool must_move = node >= 0 && !prefer_node(memory, size_bytes, node);
  const auto processors = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::int64_t threads =
      std::clamp<std::int64_t>(size_bytes / kThreadBytes, 1, std::min(processors, kMaxThreads));
  if (threads == 1 && !must_move) {
    touch(begin, begin + size_bytes);
    return;
  }
  // Threads of their own: the pool's would stay on the node's processors for whatever they are used for next.
  const std::int64_t part_bytes = (size_bytes / threads + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::vector<std::jthread> workers;
  for (std::int64_t start = 0; start < size_bytes; start += part_bytes) {
    const auto work = [=] {
      if (must_move) move_to_node(node);
      touch(begin + start, begin + std::min(start + part_bytes, size_bytes));
    };
    try {
      workers.emplace_back(work);
    } catch (const std::system_error&) {
      touch(begin + start, begin + std::min(start + part_bytes, size_bytes));  // no thread to be had
    }
  }
}

std::vector<int> parse_processor_list(std::string_view text) {
  std::vector<int> processors;
  const char* next = text.data();
  const char* const end = next + text.size();
  while (next != end) {
    int first = 0;
    auto parsed = std::from_chars(next, end, first);
    if (parsed.ec != std::errc() || first < 0) return {};
    int last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc() || last < first) return {};
    }
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
    if (parsed.ptr == end) break;
    if (*parsed.ptr != ',') return {};
    next = parsed.ptr + 1;
  }
  return processors;
}

}  // namespace kiln
