// Info objects: ordered keys and values.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/handle.hpp"

namespace weft::mpi {

/// Thread-safe. Keys keep the order in which they were set.
class Info final : public Counted {
 public:
  [[nodiscard]] std::optional<std::string> get(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  bool erase(std::string_view key);
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> all() const;

 private:
  mutable std::mutex lock_;
  std::vector<std::pair<std::string, std::string>> entries_;
};

HandleTable<Info, MPI_Info>& infos();
/// The object of a handle; nullptr for MPI_INFO_NULL; throws MPI_ERR_INFO for a bad one.
Info* info_or_null(MPI_Info handle);

}  // namespace weft::mpi
