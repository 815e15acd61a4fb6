// An MPI program that measures messages, threads and collectives, the same under any MPI library:
// one measure a run, one JSON line. scripts/compare runs it on weft and on its rivals.
//
//   mpiexec -n 2 compare MEASURE [--bytes N] [--threads T] [--seconds S] [--length Q]
//                        [--unexpected U] [--window W] [--any-tag] [--own-comms] [--overtaking]
//                        [--exact] [--cold] [--tasks] [--calls N]
//
// --exact: communicators are promised that nobody uses wildcards. --cold: depth, one thread: caches
// are cleared before each window. --tasks: weft's tasks (weft_mpi.h) on one thread of each rank
// instead of threads. --calls: of a collective just so many calls, and none of another, for who
// counts what they send; no time is kept. Of flood: so many messages.
//
// Measures, between which points, and what would make them lie: docs/benchmarks.md. All run for a
// time, not for a count, so that a slow library ends, too: one rank leads, a thread of it that
// never calls MPI reads the clock and what the others have done, and says when it is enough. The
// leader's next message tells its partner, so nobody waits for a message that will not come.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "collective_calls.hpp"
#include "measuring.hpp"

namespace {

constexpr int kBandwidthWindow = 16;
constexpr int kOtherTags = 10'000;      // of receives and messages that lie about; below: threads
constexpr int kCollectivesAtOnce = 32;  // between two looks at the clock
constexpr int kFloodMessages = 10'000'000;

/// A message of a window: each has memory of its own, no two share a cache line.
struct Window {
  Window(int messages, int message_bytes)
      : bytes(message_bytes),
        stride((static_cast<std::size_t>(message_bytes) / kLine + 1) * kLine),
        memory(stride * static_cast<std::size_t>(messages), 1),
        requests(static_cast<std::size_t>(messages)) {}

  char* message(int i) { return memory.data() + stride * static_cast<std::size_t>(i); }
  [[nodiscard]] int size() const { return static_cast<int>(requests.size()); }
  void wait() { MPI_Waitall(size(), requests.data(), MPI_STATUSES_IGNORE); }

  int bytes;
  std::size_t stride;
  std::vector<char> memory;
  std::vector<MPI_Request> requests;
};

void send_windows(Window& window, int tag, MPI_Comm comm) {
  char verdict = kOn;
  while (verdict == kOn) {
    for (int i = 0; i < window.size(); ++i) {
      MPI_Isend(window.message(i), window.bytes, MPI_BYTE, partner(), tag, comm,
                &window.requests[static_cast<std::size_t>(i)]);
    }
    window.wait();
    MPI_Recv(&verdict, 1, MPI_BYTE, partner(), tag, comm, MPI_STATUS_IGNORE);
  }
}

/// How a receiver learns of messages.
enum class Asks { receives, any, any_tag, iprobe, improbe };

/// A message that only its envelope tells the size of: asked for until it is there, then received.
void receive_unknown(Asks how, int tag, MPI_Comm comm, std::vector<char>& memory) {
  int there = 0;
  int bytes = 0;
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  while (there == 0) {
    if (how == Asks::iprobe) {
      MPI_Iprobe(partner(), tag, comm, &there, &status);
    } else {
      MPI_Improbe(partner(), tag, comm, &there, &message, &status);
    }
  }
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  memory.resize(static_cast<std::size_t>(bytes));
  if (how == Asks::iprobe) {
    MPI_Recv(memory.data(), bytes, MPI_BYTE, partner(), tag, comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Mrecv(memory.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  }
}

void receive_window(Window& window, int tag, MPI_Comm comm, Asks how) {
  if (how == Asks::iprobe || how == Asks::improbe) {
    std::vector<char> memory;
    for (int i = 0; i < window.size(); ++i) receive_unknown(how, tag, comm, memory);
    return;
  }
  const int source = how == Asks::any ? MPI_ANY_SOURCE : partner();
  const int wanted = how == Asks::receives ? tag : MPI_ANY_TAG;
  for (int i = 0; i < window.size(); ++i) {
    MPI_Irecv(window.message(i), window.bytes, MPI_BYTE, source, wanted, comm,
              &window.requests[static_cast<std::size_t>(i)]);
  }
  window.wait();
}

/// The receiver answers each window, and its answer says whether there shall be another.
void receive_windows(Window& window, int tag, MPI_Comm comm, int thread, Meter& meter, Asks how) {
  char verdict = kOn;
  while (verdict == kOn) {
    receive_window(window, tag, comm, how);
    verdict = meter.count(thread) ? kOn : kEnd;
    MPI_Send(&verdict, 1, MPI_BYTE, partner(), tag, comm);
  }
}

Reading windows(const Options& given, int messages, Asks how) {
  const Comms comms(given);
  return run(given, given.threads, receives(), [&](int thread, Meter& meter) {
    Window window(messages, given.bytes);
    if (receives()) {
      receive_windows(window, thread, comms.of(thread), thread, meter, how);
    } else {
      send_windows(window, thread, comms.of(thread));
    }
  });
}

/// Throws out of a core's caches what they hold: reads and writes more than its second level has.
/// (What a last level shared by many cores keeps is still nearer than memory.)
void clear_caches() {
  static std::vector<char> other(std::size_t{16} << 20, 1);
  for (std::size_t i = 0; i < other.size(); i += kLine / 2)
    other[i] = static_cast<char>(other[i] + 1);
}

/// Windows whose two sides begin with cleared caches (003 Fig. 8). When both have cleared theirs,
/// the receiver last of all, it posts the window's receives and then asks for messages. What is
/// timed is the posting, and from the first message to the last: not how long the sender, who
/// waited, takes to wake. Of one pair: others would measure another's clearing.
Reading cold_windows(const Options& given, MPI_Comm comm) {
  constexpr int kTag = 0;
  Window window(given.window, given.bytes);
  Reading reading;
  const auto begin = Clock::now();
  for (char verdict = kOn; verdict == kOn;) {
    // The barrier's messages may search the queues that the receiver is about to clear.
    if (!receives()) clear_caches();
    MPI_Barrier(MPI_COMM_WORLD);
    if (!receives()) {
      MPI_Recv(&verdict, 1, MPI_BYTE, partner(), kTag, comm, MPI_STATUS_IGNORE);
      for (int i = 0; i < window.size(); ++i) {
        MPI_Isend(window.message(i), window.bytes, MPI_BYTE, partner(), kTag, comm,
                  &window.requests[static_cast<std::size_t>(i)]);
      }
      window.wait();
      continue;
    }
    clear_caches();
    const auto start = Clock::now();
    for (int i = 0; i < window.size(); ++i) {
      MPI_Irecv(window.message(i), window.bytes, MPI_BYTE, partner(), kTag, comm,
                &window.requests[static_cast<std::size_t>(i)]);
    }
    const auto posted = Clock::now();
    const double passed = Seconds(posted - begin).count();
    // The first quarter is the warm-up: of memory and connections; at least one window is counted.
    const bool warm = passed > given.seconds / 4;
    verdict = warm && passed > given.seconds * 5 / 4 ? kEnd : kOn;
    MPI_Send(&verdict, 1, MPI_BYTE, partner(), kTag, comm);
    MPI_Wait(window.requests.data(), MPI_STATUS_IGNORE);
    const auto first = Clock::now();
    window.wait();
    if (!warm) continue;
    reading.seconds += Seconds(posted - start + (Clock::now() - first)).count();
    reading.done += 1;
  }
  return reading;
}

/// Windows beside receives that nothing matches, and messages that nobody asked for yet.
Reading depth(const Options& given) {
  const Comms comms(given);
  Window posted(given.length, 8);
  Window unexpected(given.unexpected, 8);
  const int first = kOtherTags + given.length;
  if (receives()) {
    for (int i = 0; i < given.length; ++i) {
      MPI_Irecv(posted.message(i), 8, MPI_BYTE, partner(), kOtherTags + i, comms.of(0),
                &posted.requests[static_cast<std::size_t>(i)]);
    }
  } else {
    for (int i = 0; i < given.unexpected; ++i) {
      MPI_Isend(unexpected.message(i), 8, MPI_BYTE, partner(), first + i, comms.of(0),
                &unexpected.requests[static_cast<std::size_t>(i)]);
    }
  }
  const auto beside = [&](int thread, Meter& meter) {
    Window window(given.window, given.bytes);
    if (receives()) {
      receive_windows(window, thread, comms.of(thread), thread, meter, Asks::receives);
    } else {
      send_windows(window, thread, comms.of(thread));
    }
  };
  const Reading reading =
      given.cold ? cold_windows(given, comms.of(0)) : run(given, given.threads, receives(), beside);
  if (receives()) {
    for (int i = 0; i < given.unexpected; ++i) {
      MPI_Recv(unexpected.message(i), 8, MPI_BYTE, partner(), first + i, comms.of(0),
               MPI_STATUS_IGNORE);
    }
    for (MPI_Request& request : posted.requests) MPI_Cancel(&request);
    posted.wait();
  } else {
    unexpected.wait();
  }
  return reading;
}

/// Threads in pairs, each pair with a tag of its own. Rank 0's question says when to end.
Reading ping_pong(const Options& given, Asks how, decltype(&MPI_Send) send = MPI_Send) {
  const Comms comms(given);
  const auto bytes = static_cast<std::size_t>(std::max(given.bytes, 1));
  return run(given, given.threads, !receives(), [&](int thread, Meter& meter) {
    std::vector<char> message(bytes + kLine, 0);
    const MPI_Comm comm = comms.of(thread);
    const int count = static_cast<int>(bytes);
    const auto receive = [&] {
      if (how == Asks::receives) {
        MPI_Recv(message.data(), count, MPI_BYTE, partner(), thread, comm, MPI_STATUS_IGNORE);
      } else {
        receive_unknown(how, thread, comm, message);
      }
    };
    char verdict = kOn;
    while (verdict == kOn) {
      if (!receives()) {
        verdict = meter.count(thread) ? kOn : kEnd;
        message[0] = verdict;
        send(message.data(), count, MPI_BYTE, partner(), thread, comm);
        receive();
      } else {
        receive();
        verdict = message[0];
        send(message.data(), count, MPI_BYTE, partner(), thread, comm);
      }
    }
  });
}

/// As a parallel loop does: all threads of a rank begin together, each exchanges some messages with
/// its partner, and the next round begins when the last is done, which MPI knows nothing of.
Reading rounds(const Options& given) {
  const Comms comms(given);
  const int count = std::max(given.bytes, 1);
  std::barrier meet(given.threads);
  std::atomic<char> of_all{kOn};
  Reading reading = run(given, given.threads, !receives(), [&](int thread, Meter& meter) {
    std::vector<char> message(static_cast<std::size_t>(count) + kLine, 0);
    const MPI_Comm comm = comms.of(thread);
    do {
      const char verdict = meter.count(thread) ? kOn : kEnd;
      if (thread == 0) of_all.store(verdict, std::memory_order_relaxed);
      meet.arrive_and_wait();
      if (!receives()) message[0] = of_all.load(std::memory_order_relaxed);
      for (int i = 0; i < given.window; ++i) {
        if (!receives()) MPI_Send(message.data(), count, MPI_BYTE, partner(), thread, comm);
        MPI_Recv(message.data(), count, MPI_BYTE, partner(), thread, comm, MPI_STATUS_IGNORE);
        if (receives()) MPI_Send(message.data(), count, MPI_BYTE, partner(), thread, comm);
      }
      meet.arrive_and_wait();
    } while (message[0] == kOn);
  });
  reading.done /= given.threads;
  return reading;
}

/// One thread asks, T threads of the other rank answer, whichever gets the question: all of them
/// receive with the same tag. Each of those ends with a message of its own, unanswered.
Reading latency_mt(const Options& given) {
  constexpr int kQuestion = 1;
  constexpr int kAnswer = 2;
  const Comms comms(given);
  const MPI_Comm comm = comms.of(0);
  const auto bytes = static_cast<std::size_t>(std::max(given.bytes, 1));
  const int count = static_cast<int>(bytes);
  const auto ask = [&](int, Meter& meter) {
    std::vector<char> message(bytes + kLine, kOn);
    do {
      MPI_Send(message.data(), count, MPI_BYTE, partner(), kQuestion, comm);
      MPI_Recv(message.data(), count, MPI_BYTE, partner(), kAnswer, comm, MPI_STATUS_IGNORE);
    } while (meter.count(0));
    message[0] = kEnd;
    for (int i = 0; i < given.threads; ++i) {
      MPI_Send(message.data(), count, MPI_BYTE, partner(), kQuestion, comm);
    }
  };
  const auto answer = [&](int, Meter&) {
    std::vector<char> message(bytes + kLine, kOn);
    for (;;) {
      MPI_Recv(message.data(), count, MPI_BYTE, partner(), kQuestion, comm, MPI_STATUS_IGNORE);
      if (message[0] == kEnd) return;
      MPI_Send(message.data(), count, MPI_BYTE, partner(), kAnswer, comm);
    }
  };
  return receives() ? run(given, given.threads, false, answer) : run(given, 1, true, ask);
}

/// The most memory that this process had resident so far.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  double kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) kib = std::atof(line.c_str() + 6);
  }
  return kib / 1024;
}

/// A sender runs ahead of a receiver that serves its library for some time before it asks for the
/// first message: memory of both at the end. Each message has its number; none may be lost.
double flood(const Options& given) {
  constexpr int kTag = 1;
  constexpr int kNever = 2;
  const int64_t messages = given.calls > 0 ? given.calls : kFloodMessages;
  std::vector<char> message(std::max(static_cast<std::size_t>(given.bytes), sizeof(int64_t)), 1);
  const int count = static_cast<int>(message.size());
  MPI_Barrier(MPI_COMM_WORLD);
  if (!receives()) {
    for (int64_t i = 0; i < messages; ++i) {
      std::memcpy(message.data(), &i, sizeof i);
      MPI_Send(message.data(), count, MPI_BYTE, partner(), kTag, MPI_COMM_WORLD);
    }
    return peak_mib();
  }
  const auto begin = Clock::now();
  for (int there = 0; there == 0 && Seconds(Clock::now() - begin).count() < given.seconds;) {
    MPI_Iprobe(partner(), kNever, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  }
  for (int64_t i = 0; i < messages; ++i) {
    int64_t number = -1;
    MPI_Recv(message.data(), count, MPI_BYTE, partner(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::memcpy(&number, message.data(), sizeof number);
    if (number == i) continue;
    std::fprintf(stderr, "compare: message %lld came where %lld was due\n",
                 static_cast<long long>(number), static_cast<long long>(i));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return peak_mib();
}

/// Blocking collectives, one after the other. Roots change each time: with one root it would run
/// ahead of the others, or they of it, and what is measured were a rate. (As it would be of scans,
/// whose first rank waits for nobody.) The time is that of the rank that took longest.
Reading collective(const Options& given, CallCollective call) {
  Buffers data(given.bytes, given.ranks);
  const int doubles = std::max(1, given.bytes / static_cast<int>(sizeof(double)));
  const auto once = [&](int i) { call(data, doubles, i % given.ranks); };
  Reading reading;
  const double begin = MPI_Wtime();
  if (given.calls > 0) {
    for (int i = 0; i < given.calls; ++i) once(i);
    reading.seconds = MPI_Wtime() - begin;
    reading.done = given.calls;
    return reading;
  }
  for (char verdict = kOn; verdict == kOn;) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < kCollectivesAtOnce; ++i) once(i);
    const double end = MPI_Wtime();
    // The first quarter is the warm-up; at least one turn is counted.
    const bool warm = end - begin > given.seconds / 4;
    if (warm) {
      reading.seconds += end - start;
      reading.done += kCollectivesAtOnce;
    }
    verdict = warm && end - begin > given.seconds * 5 / 4 ? kEnd : kOn;
    MPI_Bcast(&verdict, 1, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  double longest = 0;
  const double each = reading.us_each();
  MPI_Reduce(&each, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  reading.seconds = longest * reading.done / 1e6;
  return reading;
}

/// Threads, each with a communicator of its own, that sum what all ranks have; of the first number,
/// which says when to end, rank 0's.
Reading allreduce_mt(const Options& given) {
  Options own = given;
  own.own_comms = true;
  const Comms comms(own);
  return run(given, given.threads, world_rank() == 0, [&](int thread, Meter& meter) {
    Buffers data(given.bytes, 1);
    const int doubles = static_cast<int>(data.in.size());
    do {
      data.in[0] = world_rank() != 0 || meter.count(thread) ? 0 : 1;
      MPI_Allreduce(data.in.data(), data.out.data(), doubles, MPI_DOUBLE, MPI_SUM,
                    comms.of(thread));
    } while (data.out[0] == 0);
  });
}

/// How many ranks each host has, in their order: "4,4" for 0 to 3 on one and 4 to 7 on another; on
/// two in turn it is "1,1,1,1…". At rank 0.
std::string placement(const Options& given) {
  std::array<char, 256> mine{};
  gethostname(mine.data(), mine.size() - 1);
  std::vector<char> all(mine.size() * static_cast<std::size_t>(given.ranks));
  MPI_Gather(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(),
             static_cast<int>(mine.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  std::string text;
  for (std::size_t begin = 0, count = 1; begin < all.size(); ++count) {
    const std::size_t next = begin + count * mine.size();
    if (next < all.size() && std::strcmp(&all[begin], &all[next]) == 0) continue;
    text += (text.empty() ? "" : ",") + std::to_string(count);
    begin = next;
    count = 0;
  }
  return text;
}

/// At rank 0: a measure that says 0 has measured nothing.
bool measured_nothing = false;

/// One line, by rank 0, of what all leaders read: rates of several pairs of ranks add up.
void report(const Options& given, bool leads, double value, const char* unit, double fairness) {
  double sum = 0;
  double least = 0;
  const double mine = leads ? value : 0;
  const double fair = leads ? fairness : 1;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&fair, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  const std::string hosts = placement(given);
  if (world_rank() != 0) return;
  std::printf(R"({"measure":"%s","bytes":%d,"threads":%d,"value":%.6g,"unit":"%s","hosts":[%s])",
              given.measure.c_str(), given.bytes, given.threads, sum, unit, hosts.c_str());
  if (given.threads > 1 && given.measure != "latency-mt") {
    std::printf(R"(,"fairness":%.4f)", least);
  }
  std::printf("}\n");
  std::fflush(stdout);
  measured_nothing = measured_nothing || !(sum > 0);
}

/// False if there is no such measure.
bool measure(const Options& given) {
  const std::string& name = given.measure;
  const auto rate = [&](const Reading& reading) {
    report(given, receives(), reading.per_second() * given.window / 1e6, "M/s", reading.fairness);
  };
  const Asks unknown = name.ends_with("improbe") ? Asks::improbe : Asks::iprobe;
  if (name == "rate" || name == "pairwise") {
    rate(windows(given, given.window, given.any_tag ? Asks::any_tag : Asks::receives));
  } else if (name == "wildcard") {
    rate(windows(given, given.window, Asks::any));
  } else if (name == "rate-iprobe" || name == "rate-improbe") {
    rate(windows(given, given.window, unknown));
  } else if (name == "latency-iprobe" || name == "latency-improbe") {
    report(given, !receives(), ping_pong(given, unknown).us_each() / 2, "us", 1);
  } else if (name == "depth") {
    rate(depth(given));
  } else if (name == "bandwidth") {
    const Reading reading = windows(given, kBandwidthWindow, Asks::receives);
    report(given, receives(), reading.per_second() * kBandwidthWindow * given.bytes / 1e9, "GB/s",
           reading.fairness);
  } else if (name == "latency") {
    report(given, !receives(), ping_pong(given, Asks::receives).us_each() / 2, "us", 1);
  } else if (name == "latency-ssend") {
    report(given, !receives(), ping_pong(given, Asks::receives, MPI_Ssend).us_each() / 2, "us", 1);
  } else if (name == "rounds") {
    report(given, !receives(), rounds(given).us_each(), "us", 1);
  } else if (name == "pingpong") {
    const Reading reading = ping_pong(given, Asks::receives);
    report(given, !receives(), reading.per_second() / 1e3, "k/s", reading.fairness);
  } else if (name == "pingpong-bandwidth") {
    const Reading reading = ping_pong(given, Asks::receives);
    report(given, !receives(), reading.per_second() * 2 * given.bytes / 1e9, "GB/s",
           reading.fairness);
  } else if (name == "latency-mt") {
    report(given, !receives(), latency_mt(given).us_each() / 2, "us", 1);
  } else if (name == "allreduce-mt") {
    const Reading reading = allreduce_mt(given);
    report(given, world_rank() == 0, reading.per_second() / 1e3, "k/s", reading.fairness);
  } else if (name == "flood") {
    report(given, true, flood(given), "MiB", 1);
  } else if (const CallCollective call = find_collective(name); call != nullptr) {
    report(given, world_rank() == 0, collective(given, call).us_each(), "us", 1);
  } else {
    return false;
  }
  return true;
}

/// False if it does not understand them.
bool parse(const std::vector<std::string>& words, Options& given) {
  if (words.empty()) return false;
  given.measure = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (bool* const flag = word == "--tasks"        ? &given.tasks
                           : word == "--own-comms"  ? &given.own_comms
                           : word == "--overtaking" ? &given.overtaking
                           : word == "--exact"      ? &given.exact
                           : word == "--any-tag"    ? &given.any_tag
                           : word == "--cold"       ? &given.cold
                                                    : nullptr;
        flag != nullptr) {
      *flag = true;
      continue;
    }
    if (++i == words.size()) return false;
    char* end = nullptr;
    const double value = std::strtod(words[i].c_str(), &end);
    if (*end != '\0' || value < 0) return false;
    const int whole = static_cast<int>(value);
    if (word == "--bytes") {
      given.bytes = whole;
    } else if (word == "--threads") {
      given.threads = whole;
    } else if (word == "--length") {
      given.length = whole;
    } else if (word == "--unexpected") {
      given.unexpected = whole;
    } else if (word == "--window") {
      given.window = whole;
    } else if (word == "--calls") {
      given.calls = whole;
    } else if (word == "--seconds") {
      given.seconds = value;
    } else {
      return false;
    }
  }
  // A wildcard of one thread would take another's messages; so many threads as tags below the
  // others'.
  if (given.tasks && (find_tasks() == nullptr || given.measure == "rounds")) return false;
  return given.threads >= 1 && given.threads <= kOtherTags && given.window >= 1 &&
         (given.measure != "wildcard" || given.threads == 1) &&
         (!given.cold || (given.measure == "depth" && given.threads == 1));
}

}  // namespace

int main(int argc, char** argv) {
  Options given;
  if (!parse({argv + 1, argv + argc}, given)) {
    std::fprintf(stderr,
                 "compare: MEASURE [--bytes N] [--threads T] [--seconds S] [--length Q]"
                 " [--unexpected U] [--window W] [--any-tag] [--own-comms] [--overtaking]"
                 " [--exact] [--cold] [--tasks] [--calls N]\n");
    return 2;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &given.ranks);
  if (provided < MPI_THREAD_MULTIPLE || given.ranks % 2 != 0 || (given.cold && given.ranks != 2)) {
    std::fprintf(stderr,
                 "compare: needs MPI_THREAD_MULTIPLE and an even number of ranks, --cold two\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const bool known = measure(given);
  if (!known && world_rank() == 0) {
    std::fprintf(stderr, "compare: no measure is called %s\n", given.measure.c_str());
  }
  if (measured_nothing) std::fprintf(stderr, "compare: did nothing in the time it had\n");
  MPI_Finalize();
  return known && !measured_nothing ? 0 : 2;
}
