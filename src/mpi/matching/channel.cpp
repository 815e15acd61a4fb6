// Which engine is which.
#include "mpi/matching/channel.hpp"

#include "mpi/matching/engine_locks.hpp"
#include "mpi/matching/keyed_channel.hpp"
#include "mpi/matching/one_lock_channel.hpp"
#include "mpi/matching/tail_channel.hpp"

namespace weft::mpi {

namespace {

/// nullptr: it is none of those with locks of the caller's choice.
template <class Lock>
std::unique_ptr<Channel> make_locked(std::string_view engine) {
  if (engine == "list") return std::make_unique<OneLockChannel<ListStore, Lock>>();
  if (engine == "per-source") return std::make_unique<OneLockChannel<SourceStore, Lock>>();
  if (engine == "bins") return std::make_unique<OneLockChannel<BinStore, Lock>>();
  if (engine == "tail") return std::make_unique<TailChannel<WholeQueue<ListStore, Lock>>>();
  if (engine == "tail-per-source")
    return std::make_unique<TailChannel<WholeQueue<SourceStore, Lock>>>();
  if (engine == "tail-bins") return std::make_unique<TailChannel<WholeQueue<BinStore, Lock>>>();
  if (engine == "tail-50") return std::make_unique<TailChannel<BinnedQueue<Lock>>>();
  return nullptr;
}

}  // namespace

uint32_t Channel::take_receives_of(Rank source, int tag, std::span<Transfer*> into) {
  uint32_t count = 0;
  while (count < into.size() && (into[count] = take_receive(source, tag)) != nullptr) ++count;
  return count;
}

std::unique_ptr<Channel> make_channel(std::string_view engine, MatchingLock lock) {
  auto locked = lock == MatchingLock::mcs ? make_locked<FirstComersLock>(engine)
                                          : make_locked<AnybodysLock>(engine);
  if (locked != nullptr) return locked;
  return std::make_unique<KeyedChannel>(engine == "hash" ? KeyedChannel::Promises::heeded
                                                         : KeyedChannel::Promises::ignored);
}

}  // namespace weft::mpi
