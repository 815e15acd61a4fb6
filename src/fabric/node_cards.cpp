#include "fabric/node_cards.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weft::fabric {
namespace {

constexpr uint32_t kCardBytes = 1024;
constexpr uint32_t kFull = UINT32_MAX;
constexpr uint64_t kOneProgram = uint64_t{1} << 32;

/// In front of each entry: how long its name and its value are.
struct EntryHead {
  uint16_t key;
  uint16_t value;
};

}  // namespace

struct NodeCards::Card {
  static constexpr uint32_t kRoom = kCardBytes - sizeof(uint64_t) - sizeof(uint32_t);
  /// kOneProgram for each program of the rank that came to a fence, and one more, and how many
  /// fences the last one came to; 0: nobody opened the card.
  std::atomic<uint64_t> come;
  std::atomic<uint32_t> length;  ///< of the text that is there, or kFull
  char text[kRoom];
};

Descriptor NodeCards::create(int ranks) noexcept {
  static_assert(sizeof(Card) == kCardBytes);
  Descriptor memory(::memfd_create("weft-cards", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: whoever made it shorter would end all that have it mapped.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (memory && (::ftruncate(memory.get(), static_cast<off_t>(ranks) * kCardBytes) != 0 ||
                 ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0)) {
    return {};
  }
  return memory;
}

std::string NodeCards::place(const Descriptor& memory) {
  struct stat status;
  if (::fstat(memory.get(), &status) != 0) return {};
  return fmt::format("{} /proc/{}/fd/{}", status.st_ino, ::getpid(), memory.get());
}

std::unique_ptr<NodeCards> NodeCards::open(const std::string& place, int ranks, int own) noexcept {
  char* path = nullptr;
  const uint64_t inode = std::strtoull(place.c_str(), &path, 10);
  if (*path != ' ') return nullptr;
  // What stands there may be another file, for a process that sees other processes.
  const Descriptor memory(::open(path + 1, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  const std::size_t bytes = static_cast<std::size_t>(ranks) * kCardBytes;
  struct stat status;
  if (!memory || ::fstat(memory.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_ino != inode || status.st_size != static_cast<off_t>(bytes)) {
    return nullptr;
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) return nullptr;
  return std::unique_ptr<NodeCards>(new (std::nothrow)
                                        NodeCards(static_cast<Card*>(at), ranks, own));
}

NodeCards::NodeCards(Card* cards, int ranks, int own) noexcept
    : cards_(cards), ranks_(ranks), own_(own) {
  // relaxed: nobody looks at it before a fence. What an earlier program left stays.
  uint64_t unopened = 0;
  cards_[own_].come.compare_exchange_strong(unopened, kOneProgram, std::memory_order_relaxed);
}

NodeCards::~NodeCards() { ::munmap(cards_, static_cast<std::size_t>(ranks_) * kCardBytes); }

void NodeCards::put(std::string_view key, std::string_view value) {
  const EntryHead head{static_cast<uint16_t>(key.size()), static_cast<uint16_t>(value.size())};
  const std::size_t bytes = sizeof head + key.size() + value.size();
  full_ = full_ || key.size() > UINT16_MAX || value.size() > UINT16_MAX ||
          bytes > Card::kRoom - written_;
  if (full_) return;
  char* const at = cards_[own_].text + written_;
  std::memcpy(at, &head, sizeof head);
  std::memcpy(at + sizeof head, key.data(), key.size());
  std::memcpy(at + sizeof head + key.size(), value.data(), value.size());
  written_ += static_cast<uint32_t>(bytes);
}

void NodeCards::publish() {
  // release: pairs with find's acquire; the text is seen with its length.
  cards_[own_].length.store(full_ ? kFull : written_, std::memory_order_release);
}

void NodeCards::come_to_fence() {
  std::atomic<uint64_t>& card = cards_[own_].come;
  uint64_t come = come_.load(std::memory_order_relaxed);
  if (come == 0)  // this program's first
    come = (card.load(std::memory_order_relaxed) & ~(kOneProgram - 1)) + kOneProgram;
  come_.store(++come, std::memory_order_relaxed);
  // seq_cst: it stands there before the launcher is told, by whose word others look at it.
  card.store(come, std::memory_order_seq_cst);
}

std::optional<int> NodeCards::absent() const {
  const uint64_t wanted = come_.load(std::memory_order_relaxed);
  for (int rank = 0; rank < ranks_; ++rank) {
    const uint64_t come = cards_[rank].come.load(std::memory_order_acquire);
    if (come != 0 && come < wanted) return rank;
  }
  return std::nullopt;
}

std::optional<std::string> NodeCards::find(int rank, std::string_view key) const {
  if (rank < 0 || rank >= ranks_) return std::nullopt;
  const Card& card = cards_[rank];
  const uint32_t length = card.length.load(std::memory_order_acquire);
  if (length > Card::kRoom) return std::nullopt;  // full, or nonsense
  std::array<char, Card::kRoom> copy;
  std::memcpy(copy.data(), card.text, length);
  std::optional<std::string> newest;
  for (std::string_view rest(copy.data(), length); rest.size() >= sizeof(EntryHead);) {
    EntryHead head;
    std::memcpy(&head, rest.data(), sizeof head);
    rest.remove_prefix(sizeof head);
    if (rest.size() < std::size_t{head.key} + head.value) return std::nullopt;
    if (rest.substr(0, head.key) == key) newest = rest.substr(head.key, head.value);
    rest.remove_prefix(std::size_t{head.key} + head.value);
  }
  return newest;
}

}  // namespace weft::fabric
