// What an MPI program waits for where nothing comes for long, in MPI's words (comm.report_quiet,
// mpi.report_waits), and what it never asked for (mpi.report_leaks).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mpi/comms/context_ids.hpp"
#include "mpi/messages/engine.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"
#include "weft/base/parker.hpp"

namespace weft::mpi {
namespace {

constexpr std::size_t kMostNamedReceives = 4;

/// Receives that wait, by sender's process and tag: how many of each.
using Receives = std::map<std::pair<int32_t, int>, std::size_t>;

Receives posted_in(Channel& channel) {
  Receives posted;
  std::vector<Transfer*> none;
  channel.take_receives(
      [](void* into, const Transfer& receive) {
        ++(*static_cast<Receives*>(into))[{receive.process.value, receive.tag}];
        return false;
      },
      &posted, none);
  return posted;
}

/// A message that waits to be received.
struct Stray {
  Rank process;
  int tag;
  uint64_t bytes;
};

/// The first from `process`; false: there is none.
bool find_message(Channel& channel, Rank process, Stray& found) {
  return channel.find(
      process, MPI_ANY_TAG,
      [](void* argument, const Arrived& message) {
        *static_cast<Stray*>(argument) = {message.process, message.tag, message.bytes};
      },
      &found);
}

/// A message from somebody whom `receives` name, with another tag than they do; false: there is
/// none. (What came since they were looked at has one of theirs.)
bool find_stray(Channel& channel, const Receives& receives, Stray& stray) {
  if (channel.relies_on_exact_keys() || channel.unexpected() == 0) return false;
  const auto asked_for = [&](int32_t process, int tag) {
    return receives.contains({process, tag});
  };
  for (const auto& [key, times] : receives) {
    if (!find_message(channel, Rank{key.first}, stray)) continue;
    const int32_t from = stray.process.value;
    const int32_t any = kAnySource.value;
    if (!asked_for(from, stray.tag) && !asked_for(from, MPI_ANY_TAG) &&
        !asked_for(any, stray.tag) && !asked_for(any, MPI_ANY_TAG))
      return true;
  }
  return false;
}

std::string name_of(const Channel& channel) {
  return channel.name.empty()
             ? fmt::format("a communicator without a name, context {}", channel.context)
             : channel.name;
}

std::string name_of(const Channel& channel, Rank process) {
  return process == kAnySource ? "any rank"
                               : fmt::format("rank {}", channel.group->rank_of(process));
}

/// "rank 1 tag 5, rank 2 any tag (3 times)", the first few. Of a collective the tag says nothing.
std::string list_of(const Channel& channel, const Receives& receives) {
  std::string text;
  std::size_t named = 0;
  for (const auto& [key, times] : receives) {
    if (named++ == kMostNamedReceives)
      return text + fmt::format(" and {} more", receives.size() - kMostNamedReceives);
    if (!text.empty()) text += ", ";
    text += name_of(channel, Rank{key.first});
    if (channel.plane == Plane::program)
      text += key.second == MPI_ANY_TAG ? " any tag" : fmt::format(" tag {}", key.second);
    if (times != 1) text += fmt::format(" ({} times)", times);
  }
  return text;
}

}  // namespace

/// Of the program's. (A collective that failed leaves messages, too; so do those of the house.)
void Engine::tell_unreceived(const Channel& channel, const std::vector<Arrived*>& messages) {
  if (channel.plane != Plane::program || channel.context == ContextIds::kCarrier ||
      !settings().report_leaks)
    return;
  const bool open = channel.group != nullptr;
  std::vector<std::string> which;
  std::vector<std::tuple<int, int, uint64_t>> by_rank;
  for (const Arrived* message : messages)
    by_rank.emplace_back(open ? channel.group->rank_of(message->process) : message->process.value,
                         message->tag, message->bytes);
  std::sort(by_rank.begin(), by_rank.end());
  for (const auto& [rank, tag, bytes] : by_rank)
    which.push_back(fmt::format("from rank {} tag {} ({} bytes)", rank, tag, bytes));
  tell_left(
      open ? fmt::format("messages on {} that were not received until it ended", name_of(channel))
           : fmt::format("messages for context {}, of a communicator that this rank has freed "
                         "or never made, from the job's ranks",
                         channel.context),
      which);
}

/// (channels_lock_) Asked without need every now and then: leaves channels alone where it can.
bool Engine::looks_wrong() {
  return std::any_of(made_.begin(), made_.end(), [](Channel* channel) {
    Stray stray;
    return channel->group != nullptr && channel->plane == Plane::program &&
           channel->unexpected() != 0 && find_stray(*channel, posted_in(*channel), stray);
  });
}

std::string Engine::what_waits_for_room() {
  std::vector<std::pair<std::ptrdiff_t, uint32_t>> sends;
  {
    const std::scoped_lock guard(stalled_lock_);
    for (const Peer* peer : stalled_)
      sends.emplace_back(peer - peers_, peer->waiting.load(std::memory_order_relaxed));
  }
  std::string text;
  for (const auto& [rank, count] : sends)
    if (count != 0)
      text += fmt::format("; sends that rank {} of the job has no room for: {}", rank, count);
  return text;
}

std::string Engine::what_waits(bool all) {
  std::string text;
  {
    const std::scoped_lock guard(channels_lock_);  // their groups stay
    if (!all && !looks_wrong()) return {};
    for (Channel* const channel : made_) {
      if (channel->group == nullptr) continue;
      const Receives receives = posted_in(*channel);
      const bool program = channel->plane == Plane::program;
      Stray stray;
      if (!program && !receives.empty()) {
        Receives by_rank;
        for (const auto& [key, times] : receives) by_rank[{key.first, 0}] = 1;
        text += fmt::format("; a collective on {} waits for {}", name_of(*channel),
                            list_of(*channel, by_rank));
      } else if (!receives.empty()) {
        text += fmt::format("; receives on {} wait for {}", name_of(*channel),
                            list_of(*channel, receives));
        if (find_stray(*channel, receives, stray))
          text += fmt::format(", and from {} came tag {}, {} bytes, which none of them asks for",
                              name_of(*channel, stray.process), stray.tag, stray.bytes);
      } else if (program && channel->unexpected() != 0 && !channel->relies_on_exact_keys() &&
                 find_message(*channel, kAnySource, stray)) {
        text += fmt::format(
            "; messages on {} that nobody has asked for: {}, one from {} tag {}, {} bytes",
            name_of(*channel), channel->unexpected(), name_of(*channel, stray.process), stray.tag,
            stray.bytes);
      }
    }
  }
  return text + what_waits_for_room();
}

namespace {

// Threads that wait but are in no call, as those that serve devices, report, too, and may do so
// when MPI ends.
constinit std::mutex g_reporting;
constinit Engine* g_reported = nullptr;  // (g_reporting)

constinit thread_local const Probing* g_probing = nullptr;

}  // namespace

void report_of(Engine* engine) {
  const std::scoped_lock guard(g_reporting);
  g_reported = engine;
}

Probing::Probing(const Comm& comm, int source, int wanted) noexcept
    : channel(*comm.channels[static_cast<std::size_t>(Plane::program)]),
      from(source),
      tag(wanted),
      before_(g_probing) {
  g_probing = this;
}
Probing::~Probing() { g_probing = before_; }

std::string what_waits(bool all) {
  const std::scoped_lock guard(g_reporting);
  if (g_reported == nullptr) return {};
  std::string text = g_reported->what_waits(all);
  // A task's stack may be too small for a look at it.
  if ((!all && text.empty()) || !base::this_parker().may_poll()) return text;
  const std::string call = mpi_call();
  std::string own = call.empty() ? call : fmt::format("; in {}", call);
  if (g_probing != nullptr) {
    const Probing& probe = *g_probing;
    own +=
        fmt::format(" for {} {} on {}",
                    probe.from == MPI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", probe.from),
                    probe.tag == MPI_ANY_TAG ? "any tag" : fmt::format("tag {}", probe.tag),
                    name_of(probe.channel));
  }
  return own + text;
}

}  // namespace weft::mpi
