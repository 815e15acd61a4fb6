#include "harness/yard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "weft/base/clock.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/job.hpp"

namespace weft::bench {
namespace {

constexpr std::string_view kKey = "bench.yard";

std::runtime_error failure(const char* what) {
  return std::runtime_error(fmt::format("bench yard: {}: {}", what, std::strerror(errno)));
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

YardMemory* map_yard(int fd) {
  void* memory = mmap(nullptr, sizeof(YardMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw failure("mmap");
  return static_cast<YardMemory*>(memory);  // zeroed pages are a valid YardMemory
}

}  // namespace

void yield_core() noexcept { sched_yield(); }

Yard::Yard(fabric::Job& job) : side_(job.rank().value) {
  if (job.size() != 2 || job.node_count() != 1) {
    throw std::runtime_error(
        fmt::format("this benchmark is between 2 ranks of one node; the job has {} on {} nodes",
                    job.size(), job.node_count()));
  }
  int fd = -1;
  if (side_ == 0) {
    fd = memfd_create("weft-bench-yard", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(YardMemory)) != 0) throw failure("memfd_create");
    memory_ = map_yard(fd);
    job.put(kKey, fmt::format("/proc/{}/fd/{}", getpid(), fd));
  }
  job.fence();
  if (side_ == 1) {
    fd = open(job.get(Rank{0}, kKey).c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) throw failure("opening the other rank's memory");
    memory_ = map_yard(fd);
  }
  job.fence();  // the descriptor may go now
  close(fd);
}

Yard::~Yard() { munmap(memory_, sizeof(YardMemory)); }

void Yard::meet() noexcept {
  auto& mine = memory_->side[side_];
  auto& other = memory_->side[1 - side_];
  const uint32_t meeting = ++meetings_;
  // seq_cst, as the load of `asleep` below and the pair in the waiting loop: publish, then look
  // whether the other sleeps; announce sleep, then look whether it was published.
  mine.arrived.store(meeting);
  if (other.asleep.load() != 0) futex_wake(mine.arrived);
  const auto here = [&] {
    // The counters wrap together; the other is at most one meeting ahead.
    return static_cast<int32_t>(other.arrived.load() - meeting) >= 0;
  };
  const uint64_t until = base::now_ns() + 100'000;
  while (!here()) {
    for (int i = 0; i < 64 && !here(); ++i) base::cpu_relax();
    if (here()) break;
    if (base::now_ns() < until) {
      sched_yield();
      continue;
    }
    mine.asleep.store(1);
    if (const uint32_t seen = other.arrived.load(); static_cast<int32_t>(seen - meeting) < 0) {
      futex_wait(other.arrived, seen);
    }
    mine.asleep.store(0);
  }
}

uint64_t Yard::trade(uint64_t mine, std::size_t index) noexcept {
  memory_->side[side_].words[index] = mine;
  meet();
  const uint64_t theirs = memory_->side[1 - side_].words[index];
  meet();
  return theirs;
}

namespace {

// put writes an entry of the yard, get searches them, fence is a meeting.
class YardJob final : public fabric::Job {
 public:
  YardJob(Yard& yard, fabric::Job& original) : yard_(yard), original_(original) {
    static std::atomic<unsigned> made{0};
    // Both sides make their jobs in the same order.
    id_ = fmt::format("{}y{}", original.id(), made.fetch_add(1));
  }
  [[nodiscard]] Rank rank() const noexcept override { return original_.rank(); }
  [[nodiscard]] int size() const noexcept override { return original_.size(); }
  [[nodiscard]] const std::vector<Rank>& node_ranks() const noexcept override {
    return original_.node_ranks();
  }
  [[nodiscard]] int node_of(Rank rank) const noexcept override { return original_.node_of(rank); }
  [[nodiscard]] int node_count() const noexcept override { return 1; }
  [[nodiscard]] const std::string& id() const noexcept override { return id_; }
  [[nodiscard]] const std::string& key() const noexcept override { return original_.key(); }
  [[nodiscard]] std::string_view provider() const noexcept override { return "yard"; }

  void put(std::string_view key, std::string_view value) override {
    YardMemory& memory = yard_.memory();
    const uint32_t at = memory.entries.fetch_add(1);
    const std::string name = full_name(rank(), key);
    if (at >= YardMemory::kEntries || name.size() >= sizeof(YardMemory::Entry::key) ||
        value.size() >= sizeof(YardMemory::Entry::value)) {
      throw std::runtime_error("bench yard: too much was published");
    }
    std::memcpy(memory.entry[at].key, name.data(), name.size());
    std::memcpy(memory.entry[at].value, value.data(), value.size());
  }
  std::string get(Rank from, std::string_view key) override {
    const std::string name = full_name(from, key);
    const YardMemory& memory = yard_.memory();
    for (uint32_t at = memory.entries.load(); at-- > 0;) {
      if (name == memory.entry[at].key) return memory.entry[at].value;
    }
    throw Error(Errc::no_such_peer, fmt::format("nobody published {}", name));
  }
  void fence() override { yard_.meet(); }
  [[noreturn]] void abort(int code, std::string_view why) override {
    original_.abort(code, why);
    __builtin_unreachable();  // the contract's abort does not return either
  }
  void on_peer_death(std::function<void(Rank, std::string)>) override {}

 private:
  [[nodiscard]] std::string full_name(Rank of, std::string_view key) const {
    return fmt::format("{}.{}.{}", id_.substr(id_.rfind('y')), of.value, key);
  }
  Yard& yard_;
  fabric::Job& original_;
  std::string id_;
};

}  // namespace

std::unique_ptr<fabric::Job> make_yard_job(Yard& yard, fabric::Job& original) {
  return std::make_unique<YardJob>(yard, original);
}

}  // namespace weft::bench
