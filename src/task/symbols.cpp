#include "task/symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace weft::task {
namespace {

/// A file, mapped for reading; empty if it cannot be.
class MappedFile {
 public:
  explicit MappedFile(const char* path) noexcept {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat about {};
    if (::fstat(file, &about) == 0 && about.st_size > 0) {
      const auto bytes = static_cast<std::size_t>(about.st_size);
      void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
      if (address != MAP_FAILED) bytes_ = {static_cast<const char*>(address), bytes};
    }
    ::close(file);
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// `count` objects at `offset`; none if they are not in the file.
  template <class T>
  [[nodiscard]] std::span<const T> at(uint64_t offset, uint64_t count) const noexcept {
    if (offset > bytes_.size() || offset % alignof(T) != 0) return {};
    if (count > (bytes_.size() - offset) / sizeof(T)) return {};
    return {reinterpret_cast<const T*>(bytes_.data() + offset), static_cast<std::size_t>(count)};
  }

 private:
  std::span<const char> bytes_;
};

using Header = ElfW(Ehdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);

/// Calls `each(symbol, name)` for every function of the file's own symbol table.
template <class F>
void for_each_function(const MappedFile& file, F&& each) {
  const auto header = file.at<Header>(0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto sections = file.at<Section>(header[0].e_shoff, header[0].e_shnum);
  for (const Section& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Section& text = sections[section.sh_link];
    const auto names = file.at<char>(text.sh_offset, text.sh_size);
    if (names.empty() || names.back() != '\0') continue;
    for (const Symbol& symbol :
         file.at<Symbol>(section.sh_offset, section.sh_size / sizeof(Symbol))) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0) continue;
      if (symbol.st_name < names.size()) each(symbol, &names[symbol.st_name]);
    }
  }
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

}  // namespace

const Symbols::Table& Symbols::table_of(const char* path) {
  const auto [at, is_new] = tables_.try_emplace(path);
  Table& table = at->second;
  if (!is_new) return table;
  const MappedFile file(path);
  for_each_function(file, [&](const Symbol& symbol, const char* name) {
    table.push_back({symbol.st_value, symbol.st_value + symbol.st_size, name});
  });
  std::ranges::sort(table, {}, &Function::begin);
  return table;
}

std::string Symbols::name(const void* address) {
  const auto [at, is_new] = names_.try_emplace(address);
  std::string& name = at->second;
  if (!is_new) return name;
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) {
    return name;
  }
  // Of the program itself the linker only knows the name under which it was called.
  const bool is_program = map != nullptr && map->l_name[0] == '\0';
  const uint64_t offset = reinterpret_cast<uintptr_t>(address) - (map != nullptr ? map->l_addr : 0);
  const Table& table = table_of(is_program ? "/proc/self/exe" : info.dli_fname);
  auto after = std::ranges::upper_bound(table, offset, {}, &Function::begin);
  if (after != table.begin() && offset < (--after)->end)
    return name = demangled(after->name.c_str());
  if (info.dli_sname != nullptr) return name = demangled(info.dli_sname);
  const std::string_view path = info.dli_fname;
  return name = fmt::format("{}+{:#x}", path.substr(path.rfind('/') + 1), offset);
}

}  // namespace weft::task
