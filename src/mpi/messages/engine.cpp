// Opening and closing; channels by context.
#include "mpi/messages/engine.hpp"

#include <algorithm>
#include <mutex>

#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

constexpr uint32_t kRecords = 1U << 20;  // 192 bytes each; memory comes when they are used

template <class T>
T* map(std::size_t count) {
  return reinterpret_cast<T*>(base::map_records(count * sizeof(T)));
}
template <class T>
void unmap(T* memory, std::size_t count) noexcept {
  base::unmap_records(reinterpret_cast<std::byte*>(memory), count * sizeof(T));
}

}  // namespace

Engine::Engine(Runtime& runtime, DeviceOf device_of, bool sequenced)
    : runtime_(runtime),
      device_of_(device_of),
      chooses_devices_(device_of != DeviceOf::thread && runtime.device_count() > 1),
      sequenced_(sequenced),
      eager_bytes_(runtime.eager_bytes()),
      match_times_(settings().match_times),
      most_per_peer_(static_cast<int64_t>(settings().unexpected_bytes_per_peer)),
      most_(static_cast<int64_t>(settings().unexpected_bytes)),
      sent_done_(end_send, this),
      fetched_(end_fetch, this),
      records_(kRecords),
      channels_(map<std::atomic<Channel*>>(kContexts * 2)),
      peers_(map<Peer>(static_cast<std::size_t>(runtime.size()))),
      endpoint_(std::make_unique<Endpoint>(
          runtime, EndpointSpec{.arrival = Arrival::matcher, .matcher = this})) {
  opened_.store(true, std::memory_order_release);  // pairs with the acquire in arrive, announced
}

Engine::~Engine() {
  endpoint_.reset();
  for (Channel* const channel : made_) {
    close(*channel);
    if (SourceOrder* orders = channel->orders.load(std::memory_order_relaxed); orders != nullptr) {
      unmap(orders, static_cast<std::size_t>(runtime_.size()));
    }
    delete channel;
  }
  unmap(channels_, kContexts * 2);
  unmap(peers_, static_cast<std::size_t>(runtime_.size()));
}

Channel& Engine::make(uint16_t context, Plane plane) {
  std::atomic<Channel*>& place = this->place(context, plane);
  std::unique_ptr<Channel> fresh = make_channel(settings().matching, settings().matching_lock);
  fresh->context = context;
  fresh->plane = plane;
  const std::scoped_lock guard(channels_lock_);
  if (Channel* made = place.load(std::memory_order_relaxed); made != nullptr) return *made;
  made_.push_back(fresh.get());
  place.store(fresh.get(), std::memory_order_release);
  return *fresh.release();
}

std::vector<Channel*> Engine::all_channels() {
  const std::scoped_lock guard(channels_lock_);
  return made_;
}

void Engine::open(Channel& channel, Group* group, bool may_overtake, bool exact_keys) {
  const std::scoped_lock guard(channels_lock_);  // against peer_down
  channel.group = group;
  channel.may_overtake = may_overtake;
  channel.promise_exact_keys(exact_keys);
}

void Engine::close(Channel& channel) {
  std::vector<Arrived*> left;
  channel.take_messages(left);
  if (!left.empty()) tell_unreceived(channel, left);
  for (Arrived* message : left) drop(*message);
  open(channel, nullptr, false, false);
  name(channel, {});
  channel.counts.restart();
}

void Engine::name(Channel& channel, std::string_view name) {
  std::string own(name);
  const std::scoped_lock guard(channels_lock_);
  channel.name.swap(own);
}

bool Engine::shut() noexcept {
  closing_.store(true, std::memory_order_release);
  return under_way_.load(std::memory_order_acquire) == 0;
}

SourceOrder& Engine::order(Channel& channel, Rank process) {
  SourceOrder* orders = channel.orders.load(std::memory_order_acquire);
  if (orders == nullptr) [[unlikely]] {
    const auto ranks = static_cast<std::size_t>(runtime_.size());
    auto* fresh = map<SourceOrder>(ranks);
    if (channel.orders.compare_exchange_strong(orders, fresh, std::memory_order_acq_rel)) {
      orders = fresh;
    } else {
      unmap(fresh, ranks);
    }
  }
  return orders[process.value];
}

Device* Engine::via_chosen(const Channel& channel, int tag) const noexcept {
  uint32_t number = channel.context;
  if (device_of_ == DeviceOf::hints && channel.may_overtake) return nullptr;
  if (device_of_ == DeviceOf::key) number = number * 31 + static_cast<uint32_t>(tag);
  return &runtime_.device(number % runtime_.device_count());
}

int error_class_of(Errc error) noexcept {
  switch (error) {
    case Errc::ok:
      return MPI_SUCCESS;
    case Errc::truncated:
      return MPI_ERR_TRUNCATE;
    case Errc::peer_died:
      return MPI_ERR_PROC_ABORTED;
    case Errc::no_memory:
      return MPI_ERR_NO_MEM;
    case Errc::bad_memory:
      return MPI_ERR_BUFFER;
    default:
      return MPI_ERR_INTERN;
  }
}

// --- The room's interface ------------------------------------------------------------------------

std::string why_failed(int error, Rank process) {
  switch (error) {
    case MPI_ERR_PROC_ABORTED: {
      const std::string cause =
          process == kAnySource ? std::string() : runtime().cause_of_death(process);
      return cause.empty() ? "a peer has died" : cause;
    }
    case MPI_ERR_NO_MEM:
      return "no memory for a message";
    case MPI_ERR_BUFFER:
      return "the buffer, or the peer's, is not memory of its process (a warning says which)";
    default:
      return error_string(error);
  }
}

void open_messages() {
  const std::string& devices = settings().devices;
  const DeviceOf device_of = devices == "automatic"      ? DeviceOf::hints
                             : devices == "communicator" ? DeviceOf::communicator
                             : devices == "hash"         ? DeviceOf::key
                                                         : DeviceOf::thread;
  // One device keeps order by itself, and so do messages of a communicator that all use the same.
  const bool sequenced =
      runtime().device_count() > 1 && (device_of == DeviceOf::thread || device_of == DeviceOf::key);
  the_engine = std::make_unique<Engine>(runtime(), device_of, sequenced).release();
  report_of(the_engine);
  register_counters();
}

void close_messages() {
  report_of(nullptr);
  // A program that finalizes with a large send under way: its end will be told to the engine.
  if (!the_engine->shut()) {
    the_engine = nullptr;
    return;
  }
  delete std::exchange(the_engine, nullptr);
}

void open_channels(Comm& comm) {
  for (const Plane plane : {Plane::program, Plane::collective}) {
    Channel& channel = engine().channel(comm.context, plane);
    const bool program = plane == Plane::program;
    // Collectives name whom they receive from.
    engine().open(channel, comm.remote,
                  program && comm.hints.allow_overtaking.load(std::memory_order_relaxed),
                  !program || comm.hints.no_wildcards());
    comm.channels[static_cast<std::size_t>(plane)] = &channel;
  }
}

bool any_blocking_call() {
  const std::vector<Channel*> channels = engine().all_channels();
  return std::any_of(channels.begin(), channels.end(),
                     [](const Channel* channel) { return channel->counts.has_calls(); });
}

void name_channels(const Comm& comm) {
  for (Channel* channel : comm.channels) engine().name(*channel, comm.name);
}

void close_channels(Comm& comm) noexcept {
  for (Channel*& channel : comm.channels) {
    if (channel != nullptr) engine().close(*channel);
    channel = nullptr;
  }
}

/// Overtaking is taken up when the channels open. Promises of exact keys may come later, and stay.
void hints_changed(Comm& comm) {
  if (comm.hints.no_wildcards()) {
    comm.channels[static_cast<std::size_t>(Plane::program)]->promise_exact_keys(true);
  }
}

}  // namespace weft::mpi
