// Which engine is which.
#include "mpi/matching/channel.hpp"

#include "mpi/matching/keyed_channel.hpp"
#include "mpi/matching/one_lock_channel.hpp"
#include "mpi/matching/tail_channel.hpp"

namespace weft::mpi {

std::unique_ptr<Channel> make_channel(std::string_view engine) {
  if (engine == "list") return std::make_unique<OneLockChannel<ListStore>>();
  if (engine == "per-source") return std::make_unique<OneLockChannel<SourceStore>>();
  if (engine == "bins") return std::make_unique<OneLockChannel<BinStore>>();
  if (engine == "tail") return std::make_unique<TailChannel<WholeQueue<ListStore>>>();
  if (engine == "tail-per-source") return std::make_unique<TailChannel<WholeQueue<SourceStore>>>();
  if (engine == "tail-bins") return std::make_unique<TailChannel<WholeQueue<BinStore>>>();
  if (engine == "tail-50") return std::make_unique<TailChannel<BinnedQueue>>();
  return std::make_unique<KeyedChannel>(engine == "hash" ? KeyedChannel::Promises::heeded
                                                         : KeyedChannel::Promises::ignored);
}

}  // namespace weft::mpi
