// Programs that get into trouble on purpose; trouble_test.py starts them and looks at what is left.
//
//   trouble flood MESSAGES     every other rank floods rank 0, which sleeps, then progresses
//                              without taking anything, then takes all
//   trouble deaf               rank 0 never progresses while the others flood it, then takes all
//   trouble die-waiting        rank 1 is killed while the others wait for it, send to it, put to it
//   trouble outlive            rank 2 of three is lost, by what the test does; the others talk on
//   trouble busy SECONDS       traffic of every kind until the time is over or the job is killed
//   trouble twice              a second Runtime in one process is refused
//   trouble fork               a child of a rank exits; the rank goes on
//   trouble many-threads D     64 threads a rank on D devices
//   trouble stopped            rank 1 stops itself; ranks 0 and 2 go on talking
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/weft.hpp"

namespace {

using namespace weft;
using std::chrono::milliseconds;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

int fail(std::string_view why) {
  fmt::print(stderr, "trouble: {}\n", why);
  return 1;
}

/// Peak resident memory of this process so far, in KiB; shared pages count where it touched them.
uint64_t peak_kib() {
  uint64_t peak = 0;
  if (FILE* file = std::fopen("/proc/self/status", "r"); file != nullptr) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      if (std::sscanf(line, "VmHWM: %lu", &peak) == 1) break;
    }
    std::fclose(file);
  }
  return peak;
}

/// The peak is from now on, not that of joining the job. (Where the kernel does not know how, what
/// the start took more than this counts as growth that was not seen.)
void forget_peak() {
  if (FILE* file = std::fopen("/proc/self/clear_refs", "w"); file != nullptr) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

/// Half a second in which messages may arrive and nobody takes them.
void progress_only(Runtime& rt) {
  const auto end = std::chrono::steady_clock::now() + milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
    if (rt.progress() == 0) std::this_thread::sleep_for(milliseconds(1));
  }
}

constexpr std::size_t kFloodBytes = 8192;
/// Limits are for the settings of the test: packets of 8 KiB, 64 a rank. They are for a program as
/// it is used: a sanitizer keeps notes on each byte, and for a while what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;
#else
constexpr bool kMemoryIsOurs = true;
#endif
constexpr uint64_t kSenderKib = 2 * 1024;     // 512 KiB of packets, a lane, its threads' caches
constexpr uint64_t kReceiverKib = 64 * 1024;  // 63 times those packets: 32 MiB; lanes, records

int flood(uint32_t messages, bool deaf) {
  Runtime rt;
  Endpoint queue(rt, {.arrival = Arrival::queue, .queue_capacity = 256});
  Endpoint matched(rt, {});
  const auto senders = static_cast<uint32_t>(rt.size() - 1);
  std::vector<std::byte> data(kFloodBytes);
  rt.barrier();
  forget_peak();
  const uint64_t before = peak_kib();
  if (before == 0) return fail("the peak of resident memory cannot be read");
  if (rt.rank() == Rank{0}) {
    std::this_thread::sleep_for(milliseconds(deaf ? 500 : 100));
    if (!deaf) progress_only(rt);
    std::vector<uint32_t> next(static_cast<std::size_t>(rt.size()), 0);
    for (uint32_t i = 0; i < senders * messages; ++i) {
      const Message message = queue.dequeue_wait();
      auto& expected = next[static_cast<std::size_t>(message.source().value)];
      if (message.tag().value != expected++) return fail("a message was lost or out of order");
    }
    if (!deaf) progress_only(rt);
    for (uint32_t r = 1; r <= senders; ++r) {
      for (uint32_t i = 0; i < messages; ++i) {
        const Event event = matched.recv_wait(Rank{static_cast<int>(r)}, Tag{1}, data);
        uint32_t value = 0;
        std::memcpy(&value, data.data(), sizeof value);
        if (event.error != Errc::ok || value != i) return fail("an unexpected message was lost");
      }
    }
  } else {
    for (uint32_t i = 0; i < messages; ++i) {
      queue.send_wait(Rank{0}, Tag{i}, std::span(data).first(i % 3 == 0 ? 24 : data.size()));
    }
    for (uint32_t i = 0; i < messages; ++i) {
      std::memcpy(data.data(), &i, sizeof i);
      const std::size_t size = i % 3 == 0 ? sizeof i : data.size();
      matched.send_wait(Rank{0}, Tag{1}, std::span(data).first(size));
    }
  }
  const uint64_t grown = peak_kib() - before;
  const bool receives = rt.rank() == Rank{0};
  if (receives) fmt::print("peak grew by {} KiB\n", grown);
  rt.barrier();
  if (kMemoryIsOurs && grown > (receives ? kReceiverKib : kSenderKib)) {
    return fail(fmt::format("the peak of resident memory grew by {} KiB", grown));
  }
  return 0;
}

/// The survivors still talk.
int survive(Endpoint& matched, Rank other, const std::string& cause) {
  uint32_t value = 0;
  matched.send_wait(other, Tag{8}, bytes_of(value));
  if (matched.recv_wait(other, Tag{8}, writable(value)).error != Errc::ok)
    return fail("the survivors cannot talk");
  fmt::print("survived: {}\n", cause);
  return 0;
}

int die_waiting() {
  Runtime rt;
  Endpoint matched(rt, {});
  Endpoint memory(rt, {.arrival = Arrival::memory});
  std::vector<std::byte> own(1 << 20);
  Region region(rt, own);
  Team team(rt);
  std::vector<fabric::MemoryKey> keys(static_cast<std::size_t>(rt.size()));
  team.allgather(bytes_of(region.key()), std::as_writable_bytes(std::span(keys)));
  if (rt.rank() == Rank{1}) {
    std::this_thread::sleep_for(milliseconds(200));
    ::kill(::getpid(), SIGKILL);
  }
  // None of these can ever complete: a receive, a large send nobody receives, a put, a get.
  std::vector<std::byte> buffer(1 << 20);
  uint32_t value = 0;
  Counter over;
  uint64_t posted = 0;
  const auto count = [&](Post answer) { posted += answer == Post::posted ? 1 : 0; };
  count(matched.recv(Rank{1}, Tag{5}, writable(value), &over));
  count(until_posted(rt, [&] { return matched.send(Rank{1}, Tag{6}, own, &over); }));
  std::this_thread::sleep_for(milliseconds(400));
  count(until_posted(rt, [&] { return memory.put(keys[1], 0, buffer, &over); }));
  count(until_posted(rt, [&] { return memory.get(keys[1], 0, buffer, &over); }));
  rt.wait_until([&] { return over.value() == posted; });
  if (posted != 4 || over.errors() != posted) {
    return fail(fmt::format("{} of {} operations with a dead rank failed", over.errors(), posted));
  }
  if (matched.recv_wait(Rank{1}, Tag{7}, writable(value)).error != Errc::peer_died) {
    return fail("a receive posted after the death did not fail");
  }
  const std::string cause = rt.cause_of_death(Rank{1});
  if (cause.find("rank 1") == std::string::npos) return fail("the cause names no rank: " + cause);
  return survive(matched, Rank{rt.rank() == Rank{0} ? 2 : 0}, cause);
}

/// The last of three ranks is lost while all wait for it, by what the test does.
int outlive() {
  Runtime rt;
  Endpoint matched(rt, {});
  const Rank last{2};
  uint32_t value = 0;
  // All have met: the silence of one that was never spoken to is only the launcher's to notice.
  for (int step = 1; step < rt.size(); ++step) {
    matched.send_wait(Rank{(rt.rank().value + step) % rt.size()}, Tag{1}, bytes_of(value));
    (void)matched.recv_wait(Rank{(rt.rank().value + rt.size() - step) % rt.size()}, Tag{1},
                            writable(value));
  }
  rt.barrier();
  if (rt.rank() == Rank{0}) {
    fmt::print("waits\n");
    std::fflush(stdout);
  }
  const Rank awaited = rt.rank() == last ? Rank{0} : last;
  if (matched.recv_wait(awaited, Tag{5}, writable(value)).error != Errc::peer_died)
    return fail("a receive from a lost rank did not fail");
  if (rt.rank() == last) return 0;  // for it, the others are lost
  return survive(matched, Rank{1 - rt.rank().value}, rt.cause_of_death(last));
}

int busy(double seconds) {
  Runtime rt;
  Endpoint matched(rt, {});
  Endpoint queue(rt, {.arrival = Arrival::queue});
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const Rank to{(rt.rank().value + 1) % rt.size()};
  const Rank from{(rt.rank().value + rt.size() - 1) % rt.size()};
  const std::vector<std::byte> large(200000);
  std::vector<std::byte> in(large.size());
  Team team(rt);
  for (uint32_t round = 0;; ++round) {
    // Rank 0's clock decides for all.
    if (round % 16 == 0) {
      std::byte go{std::chrono::steady_clock::now() < end};
      team.broadcast(Rank{0}, {&go, 1});
      if (go == std::byte{0}) return 0;
    }
    const std::size_t size = round % 4 == 0 ? large.size() : round % 4 == 1 ? 5000 : 32;
    Synchronizer received;
    Synchronizer sent;
    const auto part = std::span(large).first(size);
    const Post r = until_posted(rt, [&] { return matched.recv(from, Tag{1}, in, &received); });
    const Post s = until_posted(rt, [&] { return matched.send(to, Tag{1}, part, &sent); });
    if (r == Post::posted) rt.wait(received);
    if (s == Post::posted) rt.wait(sent);
    if (received.ready() && received.event().error != Errc::ok) return fail("a peer died");
    queue.send_wait(to, Tag{2}, std::span(large).first(100));
    (void)queue.dequeue_wait();
  }
}

int twice() {
  Runtime rt;
  try {
    Runtime second;
  } catch (const Error& error) {
    fmt::print("refused: {}\n", error.what());
    return 0;
  }
  return fail("a second Runtime was made");
}

int fork_in_a_rank() {
  Runtime rt;
  Endpoint matched(rt, {});
  const Rank other{1 - rt.rank().value};
  for (uint32_t i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
#if defined(__SANITIZE_ADDRESS__)
    if (child == 0) ::_exit(0);  // the leak checker cannot stop the parent's threads from a child
#else
    if (child == 0) std::exit(0);  // runs destructors of statics, as programs do
#endif
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) return fail("the child did not end in order");
    uint32_t value = 0;
    matched.send_wait(other, Tag{1}, bytes_of(i));
    if (matched.recv_wait(other, Tag{1}, writable(value)).error != Errc::ok || value != i) {
      return fail("after a fork a message was lost");
    }
  }
  return 0;
}

int many_threads(uint32_t devices) {
  Runtime rt({.devices = devices});
  Endpoint matched(rt, {});
  const Rank other{1 - rt.rank().value};
  std::atomic<bool> wrong{false};
  std::vector<std::jthread> threads;
  for (uint32_t t = 0; t < 64; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 200; ++i) {
        uint32_t value = 0;
        if (rt.rank() == Rank{0}) matched.send_wait(other, Tag{t}, bytes_of(i));
        matched.recv_wait(other, Tag{t}, writable(value));
        if (rt.rank() == Rank{1}) matched.send_wait(other, Tag{t}, bytes_of(i));
        if (value != i) wrong = true;
      }
    });
  }
  threads.clear();
  return wrong ? fail("a message was wrong") : 0;
}

int stopped() {
  Runtime rt;
  Endpoint queue(rt, {.arrival = Arrival::queue});
  Endpoint matched(rt, {});
  rt.barrier();
  if (rt.rank() == Rank{1}) {
    // Stopped in the middle of publishing, as likely as not: it sends all the time.
    std::jthread stopper([] {
      std::this_thread::sleep_for(milliseconds(50));
      ::kill(::getpid(), SIGSTOP);
    });
    for (uint32_t i = 0; i < 20000; ++i) queue.send_wait(Rank{0}, Tag{i}, bytes_of(i));
  } else {
    uint32_t value = 0;
    const Rank other{rt.rank() == Rank{0} ? 2 : 0};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    uint32_t rounds = 0;
    for (uint32_t go = 1; go != 0; ++rounds) {
      if (rt.rank() == Rank{0}) {
        go = std::chrono::steady_clock::now() < end ? 1 : 0;
        matched.send_wait(other, Tag{go}, bytes_of(rounds));
        if (go != 0) matched.recv_wait(other, Tag{1}, writable(value));
      } else {
        Synchronizer more;
        Synchronizer last;
        if (matched.recv(other, Tag{1}, writable(value), &more) == Post::done) more.arrive();
        if (matched.recv(other, Tag{0}, writable(value), &last) == Post::done) last.arrive();
        rt.wait_until([&] { return more.ready() || last.ready(); });
        go = last.ready() ? 0 : 1;
        matched.cancel(other, Tag{1 - go}, nullptr);
        rt.wait(more);
        rt.wait(last);
        if (go != 0) matched.send_wait(other, Tag{1}, bytes_of(value));
      }
    }
    if (rt.rank() == Rank{0}) fmt::print("talked\n");
    std::fflush(stdout);
    if (rt.rank() == Rank{0}) {
      for (uint32_t i = 0; i < 20000; ++i) {
        if (queue.dequeue_wait().tag() != Tag{i}) return fail("the stopped rank's order is broken");
      }
    }
  }
  rt.barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const double number = argc > 2 ? std::atof(argv[2]) : 0;
  try {
    if (what == "flood") return flood(static_cast<uint32_t>(number), false);
    if (what == "deaf") return flood(5000, true);
    if (what == "die-waiting") return die_waiting();
    if (what == "outlive") return outlive();
    if (what == "busy") return busy(number);
    if (what == "twice") return twice();
    if (what == "fork") return fork_in_a_rank();
    if (what == "many-threads") return many_threads(static_cast<uint32_t>(number));
    if (what == "stopped") return stopped();
  } catch (const Error& error) {
    return fail(error.what());
  }
  return fail("which trouble?");
}
