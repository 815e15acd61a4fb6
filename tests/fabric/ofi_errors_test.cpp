// A provider that answers with errors, call by call: once, now and then, or always; and a process
// that may open few files, or have little memory.
//
// Each case ends in an error at set-up that names the call, after which another transport can be
// made; or everything arrives; or each rank learns that the other is lost, in a sentence. It never
// crashes, never waits for ever, and leaves nothing open.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/conformance_ranks.hpp"
#include "fabric/error_cases.hpp"
#include "fabric/exacting_libfabric.hpp"
#include "fabric/fork_job.hpp"
#include "fabric/parts.hpp"
#include "fabric/tcp_providers.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

constexpr How kHows[] = {How::once, How::now_and_then, How::always};

class OfiErrors : public ::testing::TestWithParam<const char*> {
 protected:
  /// Errors that the calls answer with: of the provider that is only for want of a better one, one.
  static std::vector<int> codes() {
    if (std::string_view(GetParam()) != kUnlayered) return {FI_EIO};
    return {FI_ENOMEM, FI_EIO, FI_EAGAIN};
  }
  /// An endpoint of libfabric 2's ofi_rxm that could not be enabled, and what it stands on, cannot
  /// be closed.
  static int left_where_not_enabled() {
    return FI_MAJOR_VERSION > 1 && std::string_view(GetParam()) == kLayered ? 5 : 0;
  }
  static void SetUpTestSuite() { (void)ofi::libfabric(); }  // loaded once for all cases
};

/// Without these there is no transport: the error names the call. Closing may fail as it likes.
TEST_P(OfiErrors, AtSetUpAreThrown) {
  std::vector<Case> cases;
  const auto add = [&](const Fault& fault, const char* name, const char* receive = "single",
                       bool exacting = false) {
    Case one = case_of(fault);
    one.said.emplace_back(name);
    one.receive = receive;
    one.exacting = exacting;
    // libfabric 1.17 crashes where an endpoint without an address vector is closed; so what it
    // stands on cannot be closed either.
    if (fault.call == Call::bind) one.left_open = 4;
    if (fault.call == Call::enable) one.left_open = left_where_not_enabled();
    cases.push_back(std::move(one));
  };
  for (const int code : codes())
    for (const How how : {How::once, How::always}) {
      for (const auto& [call, name] : {std::pair(Call::getinfo, "fi_getinfo"),
                                       {Call::fabric, "fi_fabric"},
                                       {Call::domain, "fi_domain"},
                                       {Call::av_open, "fi_av_open"},
                                       {Call::endpoint, "fi_endpoint"},
                                       {Call::bind, "fi_ep_bind"},
                                       {Call::bind_queue, "fi_ep_bind"},
                                       {Call::enable, "fi_enable"},
                                       {Call::getname, "fi_getname"}})
        add({call, code, how}, name);
      for (const auto& [call, name] : {std::pair(Call::enter, "fi_mr_reg"),
                                       {Call::bind_memory, "fi_mr_bind"},
                                       {Call::enable_memory, "fi_mr_enable"}})
        add({call, code, how}, name, "single", true);
      add({Call::least_room, code, how}, "FI_OPT_MIN_MULTI_RECV", "multi");
    }
  add({Call::cq_open, FI_ENOMEM, How::always}, "fi_cq_open");
  add({Call::get_wait, FI_ENOMEM, How::always}, "fi_control(FI_GETWAIT)");
  add({Call::dupinfo, FI_ENOMEM, How::once}, "fi_dupinfo");
  expect_all(cases, GetParam(), kRefused);
}

/// These have another way, or are tried again.
TEST_P(OfiErrors, ThatAreNoMisfortune) {
  std::vector<Case> cases;
  for (const int code : codes()) {
    for (const How how : {How::once, How::now_and_then}) {
      for (const Call call : {Call::send, Call::inject, Call::receive, Call::read, Call::read_error,
                              Call::completion, Call::trywait, Call::wait})
        cases.push_back(case_of({call, code, how}));
      for (const auto& [call, receive] : {std::pair(Call::tagged_send, "sized"),
                                          {Call::tagged_receive, "sized"},
                                          {Call::receive_many, "multi"},
                                          {Call::receive, "single"}}) {
        cases.push_back(case_of({call, code, how}));
        cases.back().receive = receive;
        cases.back().scarce = true;
        cases.back().messages = 1200;
      }
    }
    for (const Call call : {Call::wait_open, Call::trywait, Call::wait, Call::close})
      cases.push_back(case_of({call, code, How::always}));
    cases.push_back(case_of({Call::cq_open, code, How::once}));
    // Receives are asked back when arrivals were counted for a while.
    for (const How how : kHows) {
      cases.push_back(case_of({Call::cancel, code, how}));
      cases.back().receive = "sized";
      cases.back().messages = 1200;
    }
  }
  for (Case& one : cases) one.silence_s = "20";  // answers may be lost, too
  expect_all(cases, GetParam(), kArrived);
}

/// Nothing gets through: both ranks are told.
TEST_P(OfiErrors, ThatDoNotEndAreTheEndOfThePeer) {
  std::vector<Case> cases;
  for (const int code : codes()) {
    cases.push_back(case_of({Call::insert, code, How::once}));
    for (const Call call : {Call::insert, Call::send, Call::inject, Call::receive, Call::read})
      cases.push_back(case_of({call, code, How::always}));
    for (const Call call : {Call::tagged_send, Call::tagged_receive}) {
      cases.push_back(case_of({call, code, How::always}));
      cases.back().receive = "sized";
    }
    cases.push_back(case_of({Call::receive_many, code, How::always}));
    cases.back().receive = "multi";
  }
  cases.push_back(case_of({Call::unreadable, FI_EIO, How::always}));
  cases.push_back(case_of({Call::completion, FI_EIO, How::always}));
  expect_all(cases, GetParam(), kLost);
}

/// A read that does not begin is tried again, where the provider asks for that, or ends in failure,
/// soon enough for its message to come in packets; all else goes on.
TEST_P(OfiErrors, OfReadsEndThem) {
  std::vector<Case> cases;
  const auto add = [&](Call call, const char* reads) {
    for (const int code : codes())
      for (const How how : kHows) {
        Case one = case_of({call, code, how});
        one.reads = reads;
        one.silence_s = how == How::always && code == FI_EAGAIN ? "3" : "20";
        // What rank 0 cannot send is rank 1's, whose reads end, too, or it would tell nothing.
        const bool is_of_its_own = call == Call::remote_read || call == Call::tagged_receive;
        one.failed_reads = !is_of_its_own       ? 0
                           : how == How::always ? kReads
                           : code == FI_EAGAIN  ? 0
                           : how == How::once   ? 1
                                                : Case::kAny;
        one.offers = 1;
        cases.push_back(std::move(one));
      }
  };
  add(Call::remote_read, "provider");
  for (const Call call : {Call::tagged_receive, Call::tagged_send, Call::lost_data})
    if (GetParam() == std::string_view(kUnlayered)) add(call, "messages");
  expect_all(cases, GetParam(), kArrived);
}

/// What the provider does not take is not offered, and comes in packets.
TEST_P(OfiErrors, OfOffersLeaveThemOut) {
  std::vector<Case> cases;
  for (const int code : codes())
    for (const How how : {How::once, How::always}) {
      for (const Call call : {Call::enter, Call::memory_key}) {
        cases.push_back(case_of({call, code, how}));
        cases.back().reads = "provider";
      }
      for (const Call call : {Call::enter, Call::bind_memory, Call::enable_memory})
        for (const char* const reads : {"provider", "automatic"}) {
          cases.push_back(later_case_of({call, code, how}));
          cases.back().exacting = true;
          cases.back().reads = reads;
        }
    }
  for (Case& one : cases) {
    one.silence_s = "20";
    one.offers = 0;
  }
  expect_all(cases, GetParam(), kArrived);
}

/// Rank 0 of three, in a process of its own: its provider never lets go of what is for rank 1, and
/// may have four messages at a time. Rank 2 is not to suffer.
int speak_past_one_whose_sends_have_no_end(const char* provider) {
  register_fabric_config();
  base::set_config("fabric.ofi.provider", provider);
  base::set_config("fabric.ofi.silence_s", "2");
  base::set_config("fabric.ofi.under_way", "4");
  FaultyLibfabric::install();
  FaultyLibfabric::begin({Call::endless_send, FI_EIO, How::always});
  const auto jobs = make_local_job(3);
  std::array<std::unique_ptr<Transport>, 3> transports;
  std::array<std::unique_ptr<Port>, 3> ports;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    transports[rank] = make_ofi_part(*jobs[rank], small_geometry(), {});
    ports[rank] = transports[rank]->open_port(0);
    FaultyLibfabric::pause();  // the others' objects are the provider's own
  }
  std::vector<std::thread> fences;
  for (const auto& job : jobs) fences.emplace_back([&] { job->fence(); });
  for (std::thread& one : fences) one.join();

  std::array<Recorder, 3> sinks;
  uint32_t packet = 0;
  const auto send = [&](Rank to) {
    return poll_until(*ports[0], sinks[0],
                      [&] {
                        return ports[0]->try_send_packet(to, 0, bytes_of("x"), {packet, 64}) ==
                               Post::posted;
                      }) &&
           ++packet != 0;
  };
  const auto arrive = [&](std::size_t count) {
    return poll_until(*ports[0], sinks[0], [&] {
      for (const std::size_t rank : {1, 2}) ports[rank]->poll(sinks[rank], 64);
      return sinks[2].frames.size() == count && !sinks[0].downs.empty();
    });
  };
  for (int i = 0; i < 5; ++i) WEFT_EXPECT_IN_RANK(send(Rank{1}));
  for (int i = 0; i < 3; ++i) WEFT_EXPECT_IN_RANK(send(Rank{2}));
  WEFT_EXPECT_IN_RANK(arrive(3));
  for (int i = 0; i < 5; ++i) WEFT_EXPECT_IN_RANK(send(Rank{2}));
  WEFT_EXPECT_IN_RANK(arrive(8));
  WEFT_EXPECT_IN_RANK(FaultyLibfabric::calls() >= 4);
  WEFT_EXPECT_IN_RANK(sinks[0].downs.size() == 1 && sinks[0].downs[0].first == Rank{1});
  return 0;
}

/// One peer's sends do not keep others from being spoken to, nor make these seem dead.
TEST_P(OfiErrors, ThatNeverComeForOnePeerDoNotKeepOthersWaiting) {
  SharedJob alone(1);
  EXPECT_TRUE(ended_well(
      alone.start(0, [](Job&) { return speak_past_one_whose_sends_have_no_end(GetParam()); })));
}

/// Sets a limit of this process.
void limit(int resource, rlim_t most) {
  rlimit now{};
  ::getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &now);
  now.rlim_cur = most;
  ::setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &now);
}

// Sanitizers need all addresses there are, and files for looks at what a pointer points to.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void unlimit(int resource) {
  rlimit now{};
  ::getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &now);
  limit(resource, now.rlim_max);
}

/// The number that the next file would get.
rlim_t next_file() {
  const int next = ::dup(2);
  ::close(next);
  return static_cast<rlim_t>(next);
}

/// Too few files, at set-up or when connections are made.
TEST_P(OfiErrors, FewFiles) {
  std::vector<Case> cases;
  const auto lift = [] { unlimit(RLIMIT_NOFILE); };
  for (rlim_t room = 0; room <= 256; room += room < 24 ? 1 : room < 48 ? 4 : 52)
    cases.push_back({.name = std::to_string(room) + " more files",
                     .said = {"ulimit -n"},
                     .at_set_up = [room] { limit(RLIMIT_NOFILE, next_file() + room); },
                     .end = lift,
                     .left_open = left_where_not_enabled()});
  const std::size_t at_set_up = cases.size();
  for (const rlim_t room : {0, 1, 2, 3, 4, 6})
    cases.push_back({.name = std::to_string(room) + " files for connections",
                     .afterwards = [room] { limit(RLIMIT_NOFILE, next_file() + room); },
                     .end = lift});
  const auto outcomes = run_all(cases, GetParam());
  EXPECT_EQ(outcomes[0], kRefused);
  for (std::size_t i = 0; i < at_set_up; ++i)
    EXPECT_TRUE(outcomes[i] == kRefused || outcomes[i] == kLost || outcomes[i] == kArrived)
        << cases[i].name;
  EXPECT_EQ(outcomes[at_set_up - 1], kArrived) << "though there was room enough";
  for (std::size_t i = at_set_up; i < cases.size(); ++i)
    EXPECT_TRUE(outcomes[i] == kLost || outcomes[i] == kArrived) << cases[i].name;
}

/// Bytes of addresses in use.
rlim_t addresses_in_use() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// Too few addresses.
TEST_P(OfiErrors, FewAddresses) {
  std::vector<Case> cases;
  for (rlim_t room = 0; room <= (rlim_t{16} << 20); room += rlim_t{1} << 20)
    cases.push_back({.name = std::to_string(room >> 20) + " MiB of addresses",
                     .at_set_up = [room] { limit(RLIMIT_AS, addresses_in_use() + room); },
                     .end = [] { unlimit(RLIMIT_AS); },
                     .left_open = left_where_not_enabled()});
  const auto outcomes = run_all(cases, GetParam());
  EXPECT_EQ(outcomes[0], kRefused);
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_TRUE(outcomes[i] == kRefused || outcomes[i] == kLost || outcomes[i] == kArrived)
        << cases[i].name;
}
#endif

/// A provider that locks what it is told of, of which a process may lock little: where there is too
/// little for a transport, the error says how much that is; where there is enough, everything
/// arrives, though there is none for more.
TEST_P(OfiErrors, LittleLockedMemory) {
  constexpr std::size_t kStep = 64 << 10, kMost = 4 << 20;
  std::vector<Case> cases;
  const auto lock_at_most = [](std::size_t bytes) {
    ExactingLibfabric::lock_at_most(bytes);
    limit(RLIMIT_MEMLOCK, bytes);
  };
  for (std::size_t room = 0; room <= kMost; room = room < kMost / 2 ? room + kStep : 2 * room) {
    const std::string kib = std::to_string(room >> 10) + " KiB";
    cases.push_back({.name = kib + " of locked memory",
                     .said = {"fi_mr_reg", "may lock only " + kib + " of memory: ulimit -l"},
                     .at_set_up = [=] { lock_at_most(room); },
                     .end = [] { ExactingLibfabric::lock_at_most(SIZE_MAX); },
                     .silence_s = "20",
                     .exacting = true});
  }
  const std::size_t at_set_up = cases.size();
  cases.push_back({.name = "no more locked memory",
                   .afterwards = [=] { lock_at_most(0); },
                   .silence_s = "20",
                   .exacting = true,
                   .offers = 0});
  // Where the provider says that this is why it sends nothing, so does the sentence.
  Case lost = case_of({Call::send, FI_ENOMEM, How::always});
  lost.lost_said = "(this process may lock only 64 KiB of memory: ulimit -l)";
  lost.afterwards = [] { limit(RLIMIT_MEMLOCK, 64 << 10); };
  lost.exacting = true;
  cases.push_back(std::move(lost));
  const auto outcomes = run_all(cases, GetParam());
  EXPECT_EQ(outcomes[0], kRefused);
  for (std::size_t i = 1; i < at_set_up; ++i) {
    const bool was_enough = outcomes[i - 1] == kArrived;
    EXPECT_TRUE(outcomes[i] == kArrived || (outcomes[i] == kRefused && !was_enough))
        << cases[i].name;
  }
  EXPECT_EQ(outcomes[at_set_up - 1], kArrived);
  EXPECT_EQ(outcomes[at_set_up], kArrived);
  EXPECT_EQ(outcomes[at_set_up + 1], kLost);
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiErrors, ::testing::ValuesIn(kTcpProviders),
                         provider_in_name);

}  // namespace
}  // namespace weft::fabric::test
