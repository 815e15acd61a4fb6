// What the system may refuse or leave behind: full and tiny folders, permissions, leftovers,
// unreadable memory, forks.
#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "fabric/cma.hpp"
#include "fabric/conformance_ranks.hpp"
#include "fabric/fork_job.hpp"
#include "fabric/proc.hpp"
#include "fabric/shm_store.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

namespace fs = std::filesystem;

int names_in(const fs::path& dir) {
  return static_cast<int>(std::count_if(
      fs::directory_iterator(dir), fs::directory_iterator{},
      [](const auto& entry) { return entry.path().filename().string().starts_with("weft-"); }));
}

/// A folder of its own for every test, and files in it.
class ShmFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    register_fabric_config();
    std::string name = (fs::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
    before_ = base::config_text("fabric.shm_dir");
    base::set_config("fabric.shm_dir", dir_.string());
    base::set_config("fabric.shm_backing", "file");
  }
  void TearDown() override {
    base::set_config("fabric.shm_dir", before_);
    base::set_config("fabric.shm_backing", "memfd");
    fs::remove_all(dir_);
  }
  fs::path dir_;
  std::string before_;
};

TEST_F(ShmFiles, ArePrivateToTheUserAndGoneInTheEnd) {
  {
    Ranks ranks(plain_providers()[2], 2, small_geometry());
    EXPECT_EQ(names_in(dir_), 2 * (1 + 2));  // a segment and two bells each
    for (const auto& entry : fs::directory_iterator(dir_)) {
      struct stat status;
      ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777, 0600u) << entry.path();
    }
    const auto memory = ranks.transport(0).allocate_shared(5000);
    EXPECT_EQ(names_in(dir_), 7);
    ranks.transport(0).release_shared(memory);
    EXPECT_EQ(names_in(dir_), 6);
  }
  EXPECT_EQ(names_in(dir_), 0);
}

TEST_F(ShmFiles, OfTheDeadAreSweptOfTheLivingAreNot) {
  Ranks living(plain_providers()[2], 1, small_geometry());
  const int mine = names_in(dir_);
  SharedJob crashed(1);
  const pid_t child = crashed.start(0, [&](Job& rank) {
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  wait_for(child);
  EXPECT_GT(names_in(dir_), mine) << "nothing was left to sweep";
  // Names that look like ours and must stay: of another user, machine, namespace or shape.
  const uint64_t user = ::geteuid(), boot = boot_number(), ns = pid_namespace();
  const uint64_t machine = machine_number();
  const auto stays = [&](const std::string& name) {
    std::ofstream(dir_ / name).put('x');
    return dir_ / name;
  };
  const auto name_of = [](uint64_t of_user, uint64_t of_machine, uint64_t of_boot, uint64_t of_ns,
                          int64_t pid) {
    return fmt::format("weft-{}-{}-{}-{}-{}-1-0-j", of_user, of_machine, of_boot, of_ns, pid);
  };
  constexpr int64_t kNobody = 1999999;
  const std::vector<fs::path> others = {stays(name_of(user + 1, machine, boot, ns, kNobody)),
                                        stays(name_of(user, machine + 1, boot + 1, ns, kNobody)),
                                        stays(name_of(user, 0, boot + 1, ns, kNobody)),
                                        stays(name_of(user, machine, 0, ns, kNobody)),
                                        stays(name_of(user, machine, boot, ns + 1, kNobody)),
                                        stays(name_of(user, machine, boot, 0, kNobody)),
                                        stays("weft-nonsense"),
                                        stays("weft-1-2"),
                                        stays("weft-"),
                                        stays("other")};
  // A living pid with another start time is another process: its name goes.
  const fs::path reused = stays(name_of(user, machine, boot, ns, ::getpid()));
  // None outlives a boot of its machine, whatever is said of the pid.
  const fs::path old = stays(name_of(user, machine, boot + 1, ns + 1, ::getpid()));
  { Ranks next(plain_providers()[2], 1, small_geometry()); }
  EXPECT_FALSE(fs::exists(reused));
  EXPECT_EQ(fs::exists(old), machine == 0) << "it cannot be told from others";
  fs::remove(old);
  for (const auto& path : others) {
    EXPECT_TRUE(fs::exists(path)) << path;
    fs::remove(path);
  }
  EXPECT_EQ(names_in(dir_), mine);
}

TEST_F(ShmFiles, AMissingOrForbiddenFolderIsSaid) {
  const auto job = make_local_job(1);
  std::ofstream(dir_ / "missing-file") << "no folder";
  for (const char* name : {"missing", "missing-file"}) {
    base::set_config("fabric.shm_dir", (dir_ / name).string());
    try {
      (void)make_shm_transport(*job[0], small_geometry());
      FAIL() << "made in a folder that is not there";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::bad_config) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  fs::create_directory(dir_ / "mine");
  ::chmod((dir_ / "mine").c_str(), 0700);
  base::set_config("fabric.shm_dir", (dir_ / "mine").string());
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  ::chmod(dir_.c_str(), 0755);
  SharedJob shared(1);
  EXPECT_TRUE(ended_well(shared.start(0, [&](Job& rank) {
    WEFT_EXPECT_IN_RANK(::setuid(65534) == 0);
    try {
      (void)make_shm_transport(rank, small_geometry());
    } catch (const Error& error) {
      WEFT_EXPECT_IN_RANK(error.code() == Errc::no_permission);
      return 0;
    }
    return 1;
  })));
}

/// Becomes root of a mount namespace of its own; false where the system does not let it.
bool own_mounts() {
  const auto user = ::geteuid();
  const auto group = ::getegid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    // Who has no number there can make no files.
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << fmt::format("{0} {0} 1", user);
    std::ofstream("/proc/self/gid_map") << fmt::format("{0} {0} 1", group);
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

constexpr int kSkipped = 77;

TEST_F(ShmFiles, ATinyFolderIsAnErrorThatNamesSizeAndFolder) {
  SharedJob shared(2);
  const pid_t child = shared.start(0, [&](Job&) {
    if (!own_mounts() || ::mount("tmpfs", dir_.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
      return kSkipped;
    const auto job = make_local_job(1);
    Geometry large = small_geometry();
    large.packets = 1024;  // of 1 KiB, and as many cache lines that tell how far they are written
    try {
      (void)make_shm_transport(*job[0], large);
    } catch (const Error& error) {
      WEFT_EXPECT_IN_RANK(error.code() == Errc::no_memory);
      WEFT_EXPECT_IN_RANK(std::string(error.what()).find(dir_.string()) != std::string::npos);
      WEFT_EXPECT_IN_RANK(std::string(error.what()).find("1088 KiB") != std::string::npos);
      WEFT_EXPECT_IN_RANK(names_in(dir_) == 0);
      return 0;
    }
    return 1;
  });
  const int status = wait_for(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "no mount namespaces";
  EXPECT_EQ(status, 0);
}

TEST_F(ShmFiles, NoRoomForALaneOrAnAllocationIsToldWithoutACrash) {
  SharedJob shared(2);
  const pid_t child = shared.start(0, [&](Job&) {
    if (!own_mounts() || ::mount("tmpfs", dir_.c_str(), "tmpfs", 0, "size=1m,mode=700") != 0)
      return kSkipped;
    Geometry g = small_geometry();
    g.lane_cells = 8192;  // a lane of 512 KiB: the first fits, the second does not
    Ranks ranks(plain_providers()[2], 2, g);
    Recorder sink, one;
    try {
      (void)ranks.transport(0).allocate_shared(4 << 20);
      return 1;
    } catch (const Error& error) {
      WEFT_EXPECT_IN_RANK(error.code() == Errc::no_memory);
    }
    WEFT_EXPECT_IN_RANK(ranks.port(0).try_send(Rank{1}, 0, bytes_of("x"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(poll_until(ranks.port(1), one, [&] { return one.frames.size() == 1; }));
    WEFT_EXPECT_IN_RANK(ranks.port(0).try_send(Rank{1}, 1, bytes_of("x"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(poll_until(ranks.port(0), sink, [&] { return sink.downs.size() == 1; }));
    WEFT_EXPECT_IN_RANK(sink.downs[0].second.find("no room") != std::string::npos);
    return 0;
  });
  const int status = wait_for(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "no mount namespaces";
  EXPECT_EQ(status, 0);
}

class ShmSystem : public ::testing::Test {
 protected:
  void SetUp() override { register_fabric_config(); }
};

TEST_F(ShmSystem, MemfdLeavesNoName) {
  (void)sweep_leftovers("/dev/shm");  // as a start does, of what others crashed with
  const int before = names_in("/dev/shm");
  Ranks ranks(plain_providers()[2], 2, small_geometry());
  EXPECT_EQ(names_in("/dev/shm"), before);
}

TEST_F(ShmSystem, ASegmentOfSomebodyElseIsRefusedWithASentence) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  SharedJob shared(2);
  const pid_t child = shared.start(1, [&](Job& rank) {
    WEFT_EXPECT_IN_RANK(::setuid(65534) == 0);
    ::prctl(PR_SET_DUMPABLE, 1);
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    WEFT_EXPECT_IN_RANK(port->try_send(Rank{0}, 0, bytes_of("x"), {}) == Post::done);
    WEFT_EXPECT_IN_RANK(poll_until(*port, sink, [&] { return sink.downs.size() == 1; }));
    WEFT_EXPECT_IN_RANK(sink.downs[0].second.find("does not let") != std::string::npos);
    WEFT_EXPECT_IN_RANK(!transport->can_read(Rank{0}));
    return 0;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  EXPECT_TRUE(ended_well(child));
}

TEST_F(ShmSystem, ARankOfAnotherPidNamespaceIsRefusedWithASentence) {
  SharedJob shared(2);
  const auto zero = shared.rank(0), one = shared.rank(1);
  std::thread other([&] {
    const auto transport = make_shm_transport(*one, small_geometry());
    one->fence();
  });
  const auto transport = make_shm_transport(*zero, small_geometry());
  zero->fence();
  other.join();
  ShmAddress address = ShmAddress::parse(one->get(Rank{1}, "fabric.shm"));
  EXPECT_EQ(address.pid_namespace, pid_namespace());
  ++address.pid_namespace;
  one->put("fabric.shm", address.text());
  const auto port = transport->open_port(0);
  Recorder sink;
  EXPECT_EQ(port->try_send(Rank{1}, 0, bytes_of("x"), {}), Post::done);
  ASSERT_TRUE(poll_until(*port, sink, [&] { return sink.downs.size() == 1; }));
  EXPECT_NE(sink.downs[0].second.find("another pid namespace"), std::string::npos)
      << sink.downs[0].second;
}

TEST_F(ShmSystem, AProcessThatHidesUsesFilesAndCannotBeRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  SharedJob shared(2);
  const auto body = [&](Job& rank) {
    WEFT_EXPECT_IN_RANK(::setuid(65534) == 0);
    // Not dumpable: its /proc is closed, and so is its memory.
    ::prctl(PR_SET_DUMPABLE, rank.rank() == Rank{0} ? 1 : 0);
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    Recorder sink;
    const Rank other{1 - rank.rank().value};
    while (port->try_send(other, 0, bytes_of("hello"), {}) == Post::retry) ::usleep(100);
    WEFT_EXPECT_IN_RANK(poll_until(*port, sink, [&] { return !sink.frames.empty(); }));
    if (rank.rank() == Rank{0}) {
      WEFT_EXPECT_IN_RANK(!transport->can_read(Rank{1}));
      WEFT_EXPECT_IN_RANK(transport->why_not_read(Rank{1}).find("not permitted") !=
                          std::string::npos);
      std::byte b;
      WEFT_EXPECT_IN_RANK(transport->read_memory(Rank{1}, 4096, {&b, 1}) == Errc::no_permission);
      while (port->try_send(other, 0, bytes_of("done"), {}) == Post::retry) ::usleep(100);
    } else {
      WEFT_EXPECT_IN_RANK(poll_until(*port, sink, [&] { return sink.frames.size() == 2; }));
    }
    return 0;
  };
  const int before = names_in("/dev/shm");
  const pid_t zero = shared.start(0, body), one = shared.start(1, body);
  EXPECT_TRUE(ended_well(zero));
  EXPECT_TRUE(ended_well(one));
  // Fewer is fine: a start sweeps what others crashed with.
  EXPECT_LE(names_in("/dev/shm"), before);
}

TEST_F(ShmSystem, UnreadableMemoryAndDeadPeersAreErrorsNotCrashes) {
  SharedJob shared(2);
  const pid_t child = shared.start(1, [&](Job& rank) {
    const auto transport = make_shm_transport(rank, small_geometry());
    // Three pages, the last of them closed.
    auto* const pages = static_cast<char*>(
        ::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(pages, 5, 3 * 4096);
    ::mprotect(pages + 2 * 4096, 4096, PROT_NONE);
    shared.word(1) = reinterpret_cast<uint64_t>(pages);
    ::pause();
    return 0;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  while (shared.word(1).load() == 0) ::usleep(100);
  const uint64_t pages = shared.word(1);
  std::vector<std::byte> buffer(3 * 4096);
  ASSERT_TRUE(transport->can_read(Rank{1})) << transport->why_not_read(Rank{1});
  EXPECT_EQ(transport->read_memory(Rank{1}, pages, std::span(buffer).first(8192)), Errc::ok);
  EXPECT_EQ(buffer[8191], std::byte{5});
  const auto theirs = [&](uint64_t address) {
    return fmt::format("the peer (process {}) has no memory at {:#x}", child, address);
  };
  EXPECT_EQ(transport->read_memory(Rank{1}, pages, buffer), Errc::bad_memory) << "in part";
  EXPECT_EQ(last_missing(), theirs(pages + 2 * 4096));
  EXPECT_EQ(transport->read_memory(Rank{1}, 16, buffer), Errc::bad_memory);
  EXPECT_EQ(last_missing(), theirs(16));
  EXPECT_EQ(transport->write_memory(Rank{1}, pages, buffer), Errc::bad_memory);
  EXPECT_EQ(last_missing(), theirs(pages + 2 * 4096));
  {
    // The own memory: a page that cannot be written to, or not be read.
    auto* const own = static_cast<std::byte*>(
        ::mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const std::span both(own, 2 * 4096);
    const std::string ours =
        fmt::format("this process has no memory at {:#x}", reinterpret_cast<uint64_t>(own) + 4096);
    EXPECT_EQ(first_unreadable(both), nullptr);
    ::mprotect(own + 4096, 4096, PROT_READ);
    EXPECT_EQ(first_unreadable(both), nullptr);
    EXPECT_EQ(transport->read_memory(Rank{1}, pages, both), Errc::bad_memory);
    EXPECT_EQ(last_missing(), ours);
    ::mprotect(own + 4096, 4096, PROT_NONE);
    EXPECT_EQ(first_unreadable(both), own + 4096);
    EXPECT_EQ(first_unreadable(both.subspan(100, 3996)), nullptr);
    EXPECT_EQ(transport->read_memory(Rank{1}, 16, both), Errc::bad_memory);
    EXPECT_EQ(last_missing(), theirs(16)) << "another's, this time";
    EXPECT_EQ(transport->write_memory(Rank{1}, pages, both.subspan(4096)), Errc::bad_memory);
    EXPECT_EQ(last_missing(), ours);
    ::munmap(own, both.size());
  }
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(transport->read_memory(Rank{1}, pages, buffer), Errc::peer_died);
  EXPECT_EQ(transport->write_memory(Rank{1}, pages, buffer), Errc::peer_died);
  wait_for(child);
}

void sleep_for_a_frame(Port& port, Sink& sink) {
  arm(port);
  if (port.poll(sink, 64) == 0) {
    pollfd ask{port.bell_fd(), POLLIN, 0};
    ::poll(&ask, 1, -1);
  }
  port.disarm();
  port.poll(sink, 64);
}

/// Sleeps until so many frames have come in all; false where nobody woke it for the last.
bool is_woken_for(std::size_t frames, Port& port, Recorder& sink,
                  const std::function<void()>& when_armed) {
  bool rung = true;
  while (rung && sink.frames.size() < frames) {
    arm(port);
    if (port.poll(sink, 64) == 0) {
      when_armed();
      pollfd ask{port.bell_fd(), POLLIN, 0};
      rung = ::poll(&ask, 1, 60'000) == 1;
    }
    port.disarm();
    port.poll(sink, 64);
  }
  return rung && sink.frames.size() == frames && sink.downs.empty();
}

/// Sets the limit of this process's descriptors and takes all that are left.
bool take_all_descriptors(std::vector<Descriptor>& taken) {
  constexpr rlim_t kFew = 64;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = kFew;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  for (int fd; (fd = ::dup(STDERR_FILENO)) >= 0;) taken.emplace_back(fd);
  return errno == EMFILE;
}

TEST_F(ShmSystem, ASleeperIsWokenByOneThatHasNoDescriptorLeft) {
  constexpr uint64_t kAwake = 1, kArmed = 2, kHeard = 3, kArmedAgain = 4;
  SharedJob shared(2);
  const pid_t child = shared.start(1, [&](Job& rank) {
    const auto await = [&](uint64_t word) {
      while (shared.word(0).load() < word) ::usleep(100);
    };
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto say = [port = transport->open_port(0)] {
      return port->try_send(Rank{0}, 0, bytes_of("x"), {}) == Post::done;
    };
    while (!say()) ::sched_yield();  // meets rank 0 while that is awake
    std::vector<Descriptor> taken;
    WEFT_EXPECT_IN_RANK(take_all_descriptors(taken));
    shared.word(0) = kAwake;
    await(kArmed);
    WEFT_EXPECT_IN_RANK(say());
    await(kHeard);
    WEFT_EXPECT_IN_RANK(::dup(STDERR_FILENO) == -1);
    taken.clear();
    await(kArmedAgain);
    WEFT_EXPECT_IN_RANK(say());
    return 0;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  Recorder sink;
  const auto hears = [&](std::size_t frames) {
    return is_woken_for(frames, *port, sink,
                        [&] { shared.word(0) = frames == 2 ? kArmed : kArmedAgain; });
  };
  EXPECT_TRUE(poll_until(*port, sink, [&] { return sink.frames.size() == 1; }));
  wait_for_word(shared.word(0), kAwake, child);
  EXPECT_TRUE(hears(2));
  shared.word(0) = kHeard;
  EXPECT_TRUE(hears(3));
  EXPECT_TRUE(ended_well(child));
}

/// Not even the descriptor that it keeps for that is there to open.
TEST_F(ShmSystem, ASleeperThatCouldNotBeRungForIsRungForLater) {
  SharedJob shared(2);
  const pid_t child = shared.start(1, [&](Job& rank) {
    const auto transport = make_shm_transport(rank, small_geometry());
    const auto port = transport->open_port(0);
    const auto say = [&] { return port->try_send(Rank{0}, 0, bytes_of("x"), {}) == Post::done; };
    while (!say()) ::sched_yield();
    shared.word(0) = 1;
    while (shared.word(0).load() < 2) ::usleep(100);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{0, limit.rlim_max};
    WEFT_EXPECT_IN_RANK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    WEFT_EXPECT_IN_RANK(say());
    WEFT_EXPECT_IN_RANK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    Recorder sink;
    while (sink.frames.empty()) sleep_for_a_frame(*port, sink);
    return 0;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  Recorder sink;
  EXPECT_TRUE(poll_until(*port, sink, [&] { return sink.frames.size() == 1; }));
  wait_for_word(shared.word(0), 1, child);
  EXPECT_TRUE(is_woken_for(2, *port, sink, [&] { shared.word(0) = 2; }));
  EXPECT_TRUE(poll_until(
      *port, sink, [&] { return port->try_send(Rank{1}, 0, bytes_of("x"), {}) == Post::done; }));
  EXPECT_TRUE(ended_well(child));
}

TEST_F(ShmSystem, ADeathIsFoundByWhoMayNotReadAndTold) {
  SharedJob shared(2);
  const pid_t child = shared.start(1, [&](Job& rank) {
    const auto transport = make_shm_transport(rank, small_geometry());
    ::pause();
    return 0;
  });
  const auto job = shared.rank(0);
  base::set_config("fabric.cma", "off");
  const auto transport = make_shm_transport(*job, small_geometry());
  base::set_config("fabric.cma", "auto");
  const auto port = transport->open_port(0);
  std::byte b;
  EXPECT_EQ(transport->read_memory(Rank{1}, 4096, {&b, 1}), Errc::no_permission);
  ::kill(child, SIGKILL);
  wait_for(child);
  EXPECT_EQ(transport->read_memory(Rank{1}, 4096, {&b, 1}), Errc::peer_died);
  EXPECT_EQ(transport->write_memory(Rank{1}, 4096, {&b, 1}), Errc::peer_died);
  Recorder sink;  // and not only to who read
  ASSERT_TRUE(poll_until(*port, sink, [&] { return sink.downs.size() == 1; }));
  EXPECT_NE(sink.downs[0].second.find("ended"), std::string::npos) << sink.downs[0].second;
}

TEST_F(ShmSystem, AProcessLivesOnWithoutItsFirstThread) {
  SharedJob shared(2);
  static const uint64_t word = 0x77656674;
  const pid_t child = shared.start(1, [&](Job& rank) {
    auto transport = make_shm_transport(rank, small_geometry());
    auto port = transport->open_port(0);
    std::thread([&] {
      Recorder sink;
      while (sink.frames.empty()) sleep_for_a_frame(*port, sink);
      (void)port->try_send(Rank{0}, 0, bytes_of("pong"), {});
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // pthread_exit, but for the end of what lies on the stack
    return 1;
  });
  const auto job = shared.rank(0);
  const auto transport = make_shm_transport(*job, small_geometry());
  const auto port = transport->open_port(0);
  while (living_thread_of(child) == child) ::usleep(100);
  EXPECT_TRUE(may_be_alive(child, 0));
  ASSERT_TRUE(transport->can_read(Rank{1})) << transport->why_not_read(Rank{1});
  uint64_t read = 0;
  EXPECT_EQ(transport->read_memory(Rank{1}, reinterpret_cast<uint64_t>(&word),
                                   std::as_writable_bytes(std::span(&read, 1))),
            Errc::ok);
  EXPECT_EQ(read, word);
  Recorder sink;
  EXPECT_TRUE(poll_until(
      *port, sink, [&] { return port->try_send(Rank{1}, 0, bytes_of("ping"), {}) == Post::done; }));
  EXPECT_TRUE(poll_until(*port, sink, [&] { return sink.frames.size() == 1; }));
  EXPECT_TRUE(sink.downs.empty());
  ::kill(child, SIGKILL);
  EXPECT_TRUE(poll_until(*port, sink, [&] { return sink.downs.size() == 1; }));
  wait_for(child);
  EXPECT_FALSE(may_be_alive(child, 0));
}

TEST_F(ShmSystem, AForksCopyLeavesTheJobAlone) {
  for (const char* backing : {"memfd", "file"}) {
    base::set_config("fabric.shm_backing", backing);
    Ranks ranks(plain_providers()[2], 2, small_geometry());
    base::set_config("fabric.shm_backing", "memfd");
    Recorder sink;
    ASSERT_EQ(ranks.port(0).try_send(Rank{1}, 0, bytes_of("x"), {}), Post::done);
    ASSERT_TRUE(poll_until(ranks.port(1), sink, [&] { return sink.frames.size() == 1; }));
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ranks.end(0);  // as a child does that returns from main
      ::_exit(0);
    }
    ASSERT_EQ(wait_for(child), 0);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (std::chrono::steady_clock::now() < until) ranks.port(1).poll(sink, 64);
    EXPECT_TRUE(sink.downs.empty());
    ASSERT_EQ(ranks.port(0).try_send(Rank{1}, 1, bytes_of("y"), {}), Post::done);
    Recorder one;
    ASSERT_TRUE(poll_until(ranks.port(1, 1), one, [&] { return one.frames.size() == 1; }));
  }
}

TEST_F(ShmSystem, AddressesAreParsedWithCare) {
  const ShmAddress address{ShmKind::file, 12, 34, 8, 5, 67, "/dev/shm/a b"};
  const ShmAddress same = ShmAddress::parse(address.text());
  EXPECT_EQ(same.kind, ShmKind::file);
  EXPECT_EQ(same.pid, 12);
  EXPECT_EQ(same.start_time, 34u);
  EXPECT_EQ(same.pid_namespace, 8u);
  EXPECT_EQ(same.fd, 5);
  EXPECT_EQ(same.inode, 67u);
  EXPECT_EQ(same.name, "/dev/shm/a b");
  for (const char* wrong : {"", "memfd", "memfd 1 2 3", "memfd 1 2 3 4 5", "socket 1 2 3 4 5 -",
                            "memfd x 2 3 4 5 -", "memfd -7 2 3 4 5 -", "memfd 1 2 3 4 5x -", "   "})
    EXPECT_THROW((void)ShmAddress::parse(wrong), Error) << wrong;
}

TEST_F(ShmSystem, IdleRanksTouchLittleMemory) {
  // Proportional set size of the mappings that belong to segments, of a rank that sent a frame to
  // and got one from 15 others: rings and packets that were not used are not there.
  SharedJob shared(16);
  std::vector<pid_t> children;
  for (int r = 0; r < 16; ++r)
    children.push_back(shared.start(r, [&](Job& rank) {
      const auto transport = make_shm_transport(rank, default_geometry(8));
      const auto port = transport->open_port(0);
      Recorder sink;
      for (int peer = 0; peer < 16; ++peer)
        while (port->try_send(Rank{peer}, 0, bytes_of("hello"), {}) == Post::retry)
          port->poll(sink, 16);
      WEFT_EXPECT_IN_RANK(poll_until(*port, sink, [&] { return sink.frames.size() == 16; }));
      shared.word(2).fetch_add(1);
      while (shared.word(2).load() < 16) ::usleep(1000);
      std::ifstream maps("/proc/self/smaps");
      std::string line;
      uint64_t resident = 0;
      bool ours = false;
      while (std::getline(maps, line)) {
        if (line.find("memfd:weft") != std::string::npos) ours = true;
        if (ours && line.starts_with("Rss:")) {
          resident += std::stoull(line.substr(4));
          ours = false;
        }
      }
      shared.word(3).fetch_add(1);
      while (shared.word(3).load() < 16) ::usleep(1000);
      if (rank.rank() == Rank{0})
        std::printf("16 ranks that all met: %llu KiB of segments resident in each\n",
                    static_cast<unsigned long long>(resident));
      WEFT_EXPECT_IN_RANK(resident / 16 <= 64);
      return 0;
    }));
  for (const pid_t child : children) EXPECT_TRUE(ended_well(child));
}

}  // namespace
}  // namespace weft::fabric::test
