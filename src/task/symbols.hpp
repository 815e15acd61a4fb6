// Names of functions, by addresses of their code: for dumps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft::task {

/// Purpose: says which function an address is in, demangled; where that is not known, the file and
/// the offset in it, for addr2line; "" where there is no code. Knows also functions that a program
/// does not export (the dynamic linker does not), as long as the file was not stripped. Owner: who
/// makes a dump, for the time of it. Takes memory, and reads files. One thread.
class Symbols {
 public:
  [[nodiscard]] std::string name(const void* address);

 private:
  struct Function {
    uint64_t begin;
    uint64_t end;
    std::string name;  ///< mangled
  };
  using Table = std::vector<Function>;  ///< of one file, by `begin`
  const Table& table_of(const char* path);

  std::map<std::string, Table> tables_;
  std::map<const void*, std::string> names_;
};

}  // namespace weft::task
