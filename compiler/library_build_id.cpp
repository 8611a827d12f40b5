#include "compiler/library_build_id.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace kiln {
namespace {

struct Search {
  ElfW(Addr) address;
  std::string build_id;
};

bool contains(const dl_phdr_info& object, ElfW(Addr) address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    const ElfW(Addr) begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) return true;
  }
  return false;
}

std::size_t padded(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/// The build id among the notes of one segment, or empty.
std::string find_build_id(const std::byte* notes, std::size_t size, std::size_t alignment) {
  std::size_t offset = 0;
  while (offset + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + offset, sizeof(header));
    const std::size_t name = offset + sizeof(header);
    const std::size_t payload = name + padded(header.n_namesz, alignment);
    if (payload + header.n_descsz > size) return {};
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string hex;
      for (std::size_t i = 0; i < header.n_descsz; ++i)
        hex += fmt::format("{:02x}", std::to_integer<unsigned>(notes[payload + i]));
      return hex;
    }
    offset = payload + padded(header.n_descsz, alignment);
  }
  return {};
}

int visit(dl_phdr_info* object, std::size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  if (!contains(*object, search.address)) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.build_id.empty(); ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      search.build_id = find_build_id(reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr),
                                      segment.p_memsz, segment.p_align == 8 ? 8 : 4);
  }
  return 1;
}

}  // namespace

std::string library_build_id(const void* address) {
  Search search{reinterpret_cast<ElfW(Addr)>(address), {}};
  dl_iterate_phdr(&visit, &search);
  if (!search.build_id.empty()) return search.build_id;
  Dl_info library{};
  if (dladdr(address, &library) == 0 || library.dli_fname == nullptr) return {};
  std::error_code error;
  const auto size_bytes = std::filesystem::file_size(library.dli_fname, error);
  return error ? std::string() : fmt::format("{} bytes", size_bytes);
}

}  // namespace kiln
