#include "fabric/faulty_libfabric.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fabric/libfabric_tables.hpp"

namespace weft::fabric::test {
namespace {

using Own = Tables<FaultyLibfabric>;

ofi::Libfabric g_real;
std::atomic<bool> g_wraps{false}, g_fails{false};
Fault g_fault{};
std::atomic<uint32_t> g_calls{0};           ///< of the one that fails
std::atomic<int> g_open{0};                 ///< objects
std::mutex g_lost_lock;                     // guards what follows; taken while completions are read
std::map<const fid*, const fid*> g_queues;  ///< of endpoints
std::vector<std::pair<const fid*, void*>> g_lost = {};  ///< sends that are still to be told well

/// 0, or the negative error with which this call is to fail.
int error_of(Call call) {
  if (!g_fails.load() || call != g_fault.call) return 0;
  const uint32_t number = g_calls.fetch_add(1);
  const bool fails = g_fault.how == How::always || (g_fault.how == How::once && number == 0) ||
                     (g_fault.how == How::now_and_then && number * 2654435761U >> 30 == 0);
  return fails ? -g_fault.code : 0;
}

// ---- what all objects have ----

int bind(fid* object, fid* other, uint64_t flags) {
  const int error = error_of(object->fclass == FI_CLASS_MR  ? Call::bind_memory
                             : other->fclass == FI_CLASS_CQ ? Call::bind_queue
                                                            : Call::bind);
  if (other->fclass == FI_CLASS_CQ) {
    const std::scoped_lock hold(g_lost_lock);
    g_queues[object] = other;
  }
  return error != 0 ? error : Own::real(object->ops).bind(object, other, flags);
}

int control(fid* object, int command, void* argument) {
  const bool is_memory = object->fclass == FI_CLASS_MR;
  const int error = command == FI_ENABLE ? error_of(is_memory ? Call::enable_memory : Call::enable)
                    : command == FI_GETWAIT ? error_of(Call::get_wait)
                                            : 0;
  return error != 0 ? error : Own::real(object->ops).control(object, command, argument);
}

int close(fid* object) {
  const int answer = Own::real(object->ops).close(object);
  if (answer == 0) --g_open;
  const int error = error_of(Call::close);
  return error != 0 ? error : answer;
}

void wrap(fid& object) {
  fi_ops& own = Own::replace(object.ops);
  own.bind = bind;
  own.control = control;
  own.close = close;
  ++g_open;
}

// ---- the completion queue ----

/// A completion that was made an error, until it is read.
struct Pending {
  bool is_there = false;
  fi_cq_msg_entry entry{};
  uint32_t refusals = 0;  ///< to read it
};
std::mutex g_pending_lock;
std::array<std::pair<fid_cq*, Pending>, 8> g_pending;

Pending& pending_of(fid_cq* queue) {
  for (auto& [owner, pending] : g_pending) {
    if (owner == nullptr) owner = queue;
    if (owner == queue) return pending;
  }
  std::abort();  // no test makes so many
}

/// The completion of something that was lost.
bool take_lost(const fid_cq* queue, void* into) {
  const std::scoped_lock hold(g_lost_lock);
  const auto lost = std::find_if(g_lost.begin(), g_lost.end(),
                                 [&](const auto& one) { return one.first == &queue->fid; });
  if (lost == g_lost.end()) return false;
  *static_cast<fi_cq_data_entry*>(into) = {lost->second, FI_SEND | FI_TAGGED, 0, nullptr, 0};
  g_lost.erase(lost);
  return true;
}

ssize_t read(fid_cq* queue, void* into, std::size_t count) {
  // (So providers move on themselves.)
  if (count == 0) return Own::real(queue->ops).read(queue, into, count);
  if (const int error = error_of(Call::read)) return error;
  const Call call = g_fails.load() ? g_fault.call : Call::read;
  const bool spoils =
      call == Call::completion || call == Call::read_error || call == Call::unreadable;
  const std::scoped_lock hold(g_pending_lock);
  Pending& pending = pending_of(queue);
  if (pending.is_there) return -FI_EAVAIL;
  if (take_lost(queue, into)) return 1;
  const ssize_t got = Own::real(queue->ops).read(queue, into, spoils ? 1 : count);
  if (got != 1 || !spoils || error_of(call) == 0) return got;
  pending = {true, *static_cast<fi_cq_msg_entry*>(into),
             call == Call::read_error   ? 1U
             : call == Call::unreadable ? UINT32_MAX
                                        : 0U};
  return -FI_EAVAIL;
}

ssize_t read_error(fid_cq* queue, fi_cq_err_entry* error, uint64_t flags) {
  const std::scoped_lock hold(g_pending_lock);
  Pending& pending = pending_of(queue);
  if (!pending.is_there) return Own::real(queue->ops).readerr(queue, error, flags);
  if (pending.refusals != 0) {
    --pending.refusals;
    return -g_fault.code;
  }
  error->op_context = pending.entry.op_context;
  error->flags = pending.entry.flags;
  error->err = g_fault.code;
  pending = {};
  return 1;
}

// ---- the endpoint ----

int getname(fid* object, void* address, std::size_t* bytes) {
  const int error = error_of(Call::getname);
  auto* const endpoint = reinterpret_cast<fid_ep*>(object);
  return error != 0 ? error : Own::real(endpoint->cm).getname(object, address, bytes);
}

/// Whether this send is to be taken and to have no end. (What a provider's endpoint stands on has
/// one for each peer, perhaps, and calls all of them the same.)
bool is_endless(const fid_ep* endpoint, fi_addr_t to) {
  if (!g_fails.load() || g_fault.call != Call::endless_send) return false;
  static const std::pair first(endpoint, to);
  return first == std::pair(endpoint, to) && error_of(Call::endless_send) != 0;
}

ssize_t sendv(fid_ep* endpoint, const iovec* pieces, void** descriptors, std::size_t count,
              fi_addr_t to, void* context) {
  if (is_endless(endpoint, to)) return 0;
  const int error = error_of(Call::send);
  return error != 0
             ? error
             : Own::real(endpoint->msg).sendv(endpoint, pieces, descriptors, count, to, context);
}

ssize_t inject(fid_ep* endpoint, const void* bytes, std::size_t count, fi_addr_t to) {
  const int error = error_of(Call::inject);
  return error != 0 ? error : Own::real(endpoint->msg).inject(endpoint, bytes, count, to);
}

ssize_t receive(fid_ep* endpoint, void* into, std::size_t bytes, void* descriptor, fi_addr_t from,
                void* context) {
  const int error = error_of(Call::receive);
  return error != 0
             ? error
             : Own::real(endpoint->msg).recv(endpoint, into, bytes, descriptor, from, context);
}

ssize_t receive_message(fid_ep* endpoint, const fi_msg* message, uint64_t flags) {
  const int error = (flags & FI_MULTI_RECV) != 0 ? error_of(Call::receive_many) : 0;
  return error != 0 ? error : Own::real(endpoint->msg).recvmsg(endpoint, message, flags);
}

ssize_t tagged_sendv(fid_ep* endpoint, const iovec* pieces, void** descriptors, std::size_t count,
                     fi_addr_t to, uint64_t tag, void* context) {
  const int error = error_of(Call::tagged_send);
  return error != 0 ? error
                    : Own::real(endpoint->tagged)
                          .sendv(endpoint, pieces, descriptors, count, to, tag, context);
}

ssize_t tagged_send_data(fid_ep* endpoint, const void* piece, std::size_t bytes, void* descriptor,
                         uint64_t data, fi_addr_t to, uint64_t tag, void* context) {
  const int error = error_of(Call::tagged_send);
  if (error_of(Call::lost_data) != 0) {
    const std::scoped_lock hold(g_lost_lock);
    g_lost.emplace_back(g_queues.at(&endpoint->fid), context);
    return 0;
  }
  return error != 0 ? error
                    : Own::real(endpoint->tagged)
                          .senddata(endpoint, piece, bytes, descriptor, data, to, tag, context);
}

ssize_t tagged_receive(fid_ep* endpoint, void* into, std::size_t bytes, void* descriptor,
                       fi_addr_t from, uint64_t tag, uint64_t ignored, void* context) {
  const int error = error_of(Call::tagged_receive);
  return error != 0 ? error
                    : Own::real(endpoint->tagged)
                          .recv(endpoint, into, bytes, descriptor, from, tag, ignored, context);
}

ssize_t cancel(fid* object, void* context) {
  const int error = error_of(Call::cancel);
  auto* const endpoint = reinterpret_cast<fid_ep*>(object);
  return error != 0 ? error : Own::real(endpoint->ops).cancel(object, context);
}

int set_option(fid* object, int level, int option, const void* value, std::size_t bytes) {
  const int error = option == FI_OPT_MIN_MULTI_RECV ? error_of(Call::least_room) : 0;
  auto* const endpoint = reinterpret_cast<fid_ep*>(object);
  return error != 0 ? error : Own::real(endpoint->ops).setopt(object, level, option, value, bytes);
}

ssize_t read_remote(fid_ep* endpoint, void* into, std::size_t bytes, void* descriptor,
                    fi_addr_t from, uint64_t address, uint64_t key, void* context) {
  const int error = error_of(Call::remote_read);
  return error != 0 ? error
                    : Own::real(endpoint->rma)
                          .read(endpoint, into, bytes, descriptor, from, address, key, context);
}

int insert(fid_av* table, const void* address, std::size_t count, fi_addr_t* names, uint64_t flags,
           void* context) {
  const int error = error_of(Call::insert);
  return error != 0 ? error
                    : Own::real(table->ops).insert(table, address, count, names, flags, context);
}

// ---- the domain ----

int av_open(fid_domain* domain, fi_av_attr* attributes, fid_av** made, void* context) {
  if (const int error = error_of(Call::av_open)) return error;
  const int answer = Own::real(domain->ops).av_open(domain, attributes, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  Own::replace((*made)->ops).insert = insert;
  return 0;
}

int cq_open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** made, void* context) {
  if (const int error = error_of(Call::cq_open)) return error;
  const int answer = Own::real(domain->ops).cq_open(domain, attributes, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  fi_ops_cq& own = Own::replace((*made)->ops);
  own.read = read;
  own.readerr = read_error;
  return 0;
}

int enter(fid* owner, const void* base, std::size_t bytes, uint64_t access, uint64_t offset,
          uint64_t key, uint64_t flags, fid_mr** made, void* context) {
  if (const int error = error_of(Call::enter)) return error;
  const auto* const domain = reinterpret_cast<fid_domain*>(owner);
  const int answer =
      Own::real(domain->mr).reg(owner, base, bytes, access, offset, key, flags, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  if (error_of(Call::memory_key) != 0) (*made)->key = FI_KEY_NOTAVAIL;
  return 0;
}

int endpoint(fid_domain* domain, fi_info* info, fid_ep** made, void* context) {
  if (const int error = error_of(Call::endpoint)) return error;
  const int answer = Own::real(domain->ops).endpoint(domain, info, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  Own::replace((*made)->cm).getname = getname;
  fi_ops_msg& own = Own::replace((*made)->msg);
  own.sendv = sendv;
  own.inject = inject;
  own.recv = receive;
  own.recvmsg = receive_message;
  if ((*made)->tagged != nullptr) {
    fi_ops_tagged& tagged = Own::replace((*made)->tagged);
    tagged.sendv = tagged_sendv;
    tagged.senddata = tagged_send_data;
    tagged.recv = tagged_receive;
  }
  if ((*made)->rma != nullptr) Own::replace((*made)->rma).read = read_remote;
  fi_ops_ep& options = Own::replace((*made)->ops);
  options.cancel = cancel;
  options.setopt = set_option;
  return 0;
}

// ---- the fabric ----

int domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void* context) {
  if (const int error = error_of(Call::domain)) return error;
  const int answer = Own::real(fabric->ops).domain(fabric, info, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  fi_ops_domain& own = Own::replace((*made)->ops);
  own.av_open = av_open;
  own.cq_open = cq_open;
  own.endpoint = endpoint;
  Own::replace((*made)->mr).reg = enter;
  return 0;
}

int wait(fid_wait* set, int milliseconds) {
  const int error = error_of(Call::wait);
  return error != 0 ? error : Own::real(set->ops).wait(set, milliseconds);
}

int wait_open(fid_fabric* fabric, fi_wait_attr* attributes, fid_wait** made) {
  if (const int error = error_of(Call::wait_open)) return error;
  const int answer = Own::real(fabric->ops).wait_open(fabric, attributes, made);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  Own::replace((*made)->ops).wait = wait;
  return 0;
}

int trywait(fid_fabric* fabric, fid** waited, int count) {
  const int error = error_of(Call::trywait);
  return error != 0 ? error : Own::real(fabric->ops).trywait(fabric, waited, count);
}

// ---- libfabric's own ----

int fabric(fi_fabric_attr* attributes, fid_fabric** made, void* context) {
  if (!g_wraps.load()) return g_real.fabric(attributes, made, context);
  if (const int error = error_of(Call::fabric)) return error;
  const int answer = g_real.fabric(attributes, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  fi_ops_fabric& own = Own::replace((*made)->ops);
  own.domain = domain;
  own.wait_open = wait_open;
  own.trywait = trywait;
  return 0;
}

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
            const fi_info* hints, fi_info** info) {
  const int error = g_wraps.load() ? error_of(Call::getinfo) : 0;
  return error != 0 ? error : g_real.getinfo(version, node, service, flags, hints, info);
}

fi_info* dupinfo(const fi_info* info) {
  return g_wraps.load() && error_of(Call::dupinfo) != 0 ? nullptr : g_real.dupinfo(info);
}

}  // namespace

std::string Fault::text() const {
  static constexpr const char* kCalls[] = {
      "getinfo",       "dupinfo",    "fabric",      "domain",         "wait_open",
      "av_open",       "cq_open",    "get_wait",    "endpoint",       "bind",
      "bind_queue",    "enable",     "getname",     "insert",         "send",
      "inject",        "receive",    "tagged_send", "tagged_receive", "lost_data",
      "receive_many",  "least_room", "cancel",      "enter",          "bind_memory",
      "enable_memory", "memory_key", "remote_read", "read",           "completion",
      "read_error",    "unreadable", "trywait",     "wait",           "endless_send",
      "close"};
  static_assert(std::size(kCalls) == static_cast<std::size_t>(Call::close) + 1);
  static constexpr const char* kHow[] = {"once", "now and then", "always"};
  return std::string(kCalls[static_cast<int>(call)]) + ", error " + std::to_string(code) + ", " +
         kHow[static_cast<int>(how)];
}

void FaultyLibfabric::install() {
  g_real = ofi::libfabric();
  ofi::Libfabric faulty = g_real;
  faulty.getinfo = getinfo;
  faulty.dupinfo = dupinfo;
  faulty.fabric = fabric;
  ofi::replace_libfabric(faulty);
}

void FaultyLibfabric::begin(const Fault& fault) {
  g_fault = fault;
  g_calls = 0;
  g_fails = true;
  g_wraps = true;
}
void FaultyLibfabric::pause() { g_wraps = false; }
void FaultyLibfabric::resume() { g_wraps = true; }
void FaultyLibfabric::end() {
  g_fails = false;
  g_wraps = false;
}
uint32_t FaultyLibfabric::calls() { return g_calls.load(); }
int FaultyLibfabric::open() { return g_open.load(); }

}  // namespace weft::fabric::test
