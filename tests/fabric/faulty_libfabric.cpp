#include "fabric/faulty_libfabric.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <array>
#include <atomic>
#include <mutex>

#include "fabric/libfabric_tables.hpp"

namespace weft::fabric::test {
namespace {

ofi::Libfabric g_real;
std::atomic<bool> g_wraps{false}, g_fails{false};
Fault g_fault{};
std::atomic<uint32_t> g_calls{0};  ///< of the one that fails

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
  const int error = error_of(other->fclass == FI_CLASS_CQ ? Call::bind_queue : Call::bind);
  return error != 0 ? error : real_table(object->ops).bind(object, other, flags);
}

int control(fid* object, int command, void* argument) {
  const int error = command == FI_ENABLE    ? error_of(Call::enable)
                    : command == FI_GETWAIT ? error_of(Call::get_wait)
                                            : 0;
  return error != 0 ? error : real_table(object->ops).control(object, command, argument);
}

int close(fid* object) {
  const int answer = real_table(object->ops).close(object);
  const int error = error_of(Call::close);
  return error != 0 ? error : answer;
}

void wrap(fid& object) {
  fi_ops& own = replace_table(object.ops);
  own.bind = bind;
  own.control = control;
  own.close = close;
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

ssize_t read(fid_cq* queue, void* into, std::size_t count) {
  // (So providers move on themselves.)
  if (count == 0) return real_table(queue->ops).read(queue, into, count);
  if (const int error = error_of(Call::read)) return error;
  const Call call = g_fault.call;
  const bool spoils =
      call == Call::completion || call == Call::read_error || call == Call::unreadable;
  const std::scoped_lock hold(g_pending_lock);
  Pending& pending = pending_of(queue);
  if (pending.is_there) return -FI_EAVAIL;
  const ssize_t got = real_table(queue->ops).read(queue, into, spoils ? 1 : count);
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
  if (!pending.is_there) return real_table(queue->ops).readerr(queue, error, flags);
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
  return error != 0 ? error : real_table(endpoint->cm).getname(object, address, bytes);
}

ssize_t sendv(fid_ep* endpoint, const iovec* pieces, void** descriptors, std::size_t count,
              fi_addr_t to, void* context) {
  const int error = error_of(Call::send);
  return error != 0
             ? error
             : real_table(endpoint->msg).sendv(endpoint, pieces, descriptors, count, to, context);
}

ssize_t inject(fid_ep* endpoint, const void* bytes, std::size_t count, fi_addr_t to) {
  const int error = error_of(Call::inject);
  return error != 0 ? error : real_table(endpoint->msg).inject(endpoint, bytes, count, to);
}

ssize_t receive(fid_ep* endpoint, void* into, std::size_t bytes, void* descriptor, fi_addr_t from,
                void* context) {
  const int error = error_of(Call::receive);
  return error != 0
             ? error
             : real_table(endpoint->msg).recv(endpoint, into, bytes, descriptor, from, context);
}

int insert(fid_av* table, const void* address, std::size_t count, fi_addr_t* names, uint64_t flags,
           void* context) {
  const int error = error_of(Call::insert);
  return error != 0 ? error
                    : real_table(table->ops).insert(table, address, count, names, flags, context);
}

// ---- the domain ----

int av_open(fid_domain* domain, fi_av_attr* attributes, fid_av** made, void* context) {
  if (const int error = error_of(Call::av_open)) return error;
  const int answer = real_table(domain->ops).av_open(domain, attributes, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  replace_table((*made)->ops).insert = insert;
  return 0;
}

int cq_open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** made, void* context) {
  if (const int error = error_of(Call::cq_open)) return error;
  const int answer = real_table(domain->ops).cq_open(domain, attributes, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  fi_ops_cq& own = replace_table((*made)->ops);
  own.read = read;
  own.readerr = read_error;
  return 0;
}

int endpoint(fid_domain* domain, fi_info* info, fid_ep** made, void* context) {
  if (const int error = error_of(Call::endpoint)) return error;
  const int answer = real_table(domain->ops).endpoint(domain, info, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  replace_table((*made)->cm).getname = getname;
  fi_ops_msg& own = replace_table((*made)->msg);
  own.sendv = sendv;
  own.inject = inject;
  own.recv = receive;
  return 0;
}

// ---- the fabric ----

int domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void* context) {
  if (const int error = error_of(Call::domain)) return error;
  const int answer = real_table(fabric->ops).domain(fabric, info, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  fi_ops_domain& own = replace_table((*made)->ops);
  own.av_open = av_open;
  own.cq_open = cq_open;
  own.endpoint = endpoint;
  return 0;
}

int wait(fid_wait* set, int milliseconds) {
  const int error = error_of(Call::wait);
  return error != 0 ? error : real_table(set->ops).wait(set, milliseconds);
}

int wait_open(fid_fabric* fabric, fi_wait_attr* attributes, fid_wait** made) {
  if (const int error = error_of(Call::wait_open)) return error;
  const int answer = real_table(fabric->ops).wait_open(fabric, attributes, made);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  replace_table((*made)->ops).wait = wait;
  return 0;
}

int trywait(fid_fabric* fabric, fid** waited, int count) {
  const int error = error_of(Call::trywait);
  return error != 0 ? error : real_table(fabric->ops).trywait(fabric, waited, count);
}

// ---- libfabric's own ----

int fabric(fi_fabric_attr* attributes, fid_fabric** made, void* context) {
  if (!g_wraps.load()) return g_real.fabric(attributes, made, context);
  if (const int error = error_of(Call::fabric)) return error;
  const int answer = g_real.fabric(attributes, made, context);
  if (answer != 0) return answer;
  wrap((*made)->fid);
  fi_ops_fabric& own = replace_table((*made)->ops);
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
      "getinfo",    "dupinfo",    "fabric",     "domain",  "wait_open",  "av_open",
      "cq_open",    "get_wait",   "endpoint",   "bind",    "bind_queue", "enable",
      "getname",    "insert",     "send",       "inject",  "receive",    "read",
      "completion", "read_error", "unreadable", "trywait", "wait",       "close"};
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

}  // namespace weft::fabric::test
