#include "fabric/exacting_libfabric.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "fabric/libfabric_tables.hpp"
#include "fabric/ofi/libfabric.hpp"

namespace weft::fabric::test {
namespace {

using Own = Tables<ExactingLibfabric>;

constexpr int kAsked = FI_MR_LOCAL | FI_MR_ENDPOINT;

struct Entry {
  const std::byte* base;
  std::size_t bytes;
  uint64_t access;
  void* real_descriptor;
  const fid* endpoint = nullptr;
  bool is_enabled = false;
  int reads = 0;  ///< under way
};

ofi::Libfabric g_real;
std::atomic<uint64_t>* g_looked_at = nullptr;  ///< shared with processes that are forked
std::mutex g_lock;                             // guards what follows
std::map<const fid*, std::unique_ptr<Entry>> g_entries;
std::map<const void*, const fid*> g_reads;        ///< contexts, and where they read to
std::size_t g_locked = 0, g_may_lock = SIZE_MAX;  ///< bytes

template <class... Words>
[[noreturn]] void object(fmt::format_string<Words...> text, Words&&... words) {
  std::fprintf(stderr, "exacting provider: %s\n",
               fmt::format(text, std::forward<Words>(words)...).c_str());
  std::abort();
}

/// The entry that stands for a piece of memory; the provider's own descriptor of it.
Entry& entry_of(const fid_ep* endpoint, const void* descriptor, const void* base, std::size_t bytes,
                uint64_t access, std::string_view call) {
  g_looked_at->fetch_add(1);
  for (const auto& [object_of, entry] : g_entries) {
    if (entry.get() != descriptor) continue;
    const auto* const at = static_cast<const std::byte*>(base);
    if (at < entry->base || at + bytes > entry->base + entry->bytes)
      object("{} of {} bytes at {}, which are not of the {} at {} that it names", call, bytes, base,
             entry->bytes, static_cast<const void*>(entry->base));
    if ((entry->access & access) == 0)
      object("{} with memory that was told for {:#x}", call, entry->access);
    if (!entry->is_enabled || entry->endpoint != &endpoint->fid)
      object("{} with memory that is not bound to its endpoint", call);
    return *entry;
  }
  object("{} of {} bytes at {}, named by {}, of which it was not told", call, bytes, base,
         descriptor);
}

void* checked(const fid_ep* endpoint, const void* descriptor, const void* base, std::size_t bytes,
              uint64_t access, std::string_view call) {
  const std::scoped_lock hold(g_lock);
  return entry_of(endpoint, descriptor, base, bytes, access, call).real_descriptor;
}

// ---- memory ----

int bind_memory(fid* memory, fid* endpoint, uint64_t /*flags*/) {
  const std::scoped_lock hold(g_lock);
  g_entries.at(memory)->endpoint = endpoint;
  return 0;
}

int control_memory(fid* memory, int command, void* argument) {
  if (command != FI_ENABLE) return Own::real(memory->ops).control(memory, command, argument);
  const std::scoped_lock hold(g_lock);
  Entry& entry = *g_entries.at(memory);
  entry.is_enabled = entry.endpoint != nullptr;
  return entry.is_enabled ? 0 : -FI_EINVAL;
}

int close_memory(fid* memory) {
  {
    const std::scoped_lock hold(g_lock);
    const auto found = g_entries.find(memory);
    if (found->second->reads != 0) object("memory is taken back into which it still reads");
    g_locked -= found->second->bytes;
    g_entries.erase(found);
  }
  return Own::real(memory->ops).close(memory);
}

int enter(fid* owner, const void* base, std::size_t bytes, uint64_t access, uint64_t offset,
          uint64_t key, uint64_t flags, fid_mr** made, void* context) {
  const std::scoped_lock hold(g_lock);
  if (g_may_lock < g_locked + bytes) return -FI_ENOMEM;
  const auto* const domain = reinterpret_cast<fid_domain*>(owner);
  const int answer =
      Own::real(domain->mr).reg(owner, base, bytes, access, offset, key, flags, made, context);
  if (answer != 0) return answer;
  fid_mr& memory = **made;
  auto entry = std::make_unique<Entry>(
      Entry{static_cast<const std::byte*>(base), bytes, access, memory.mem_desc});
  memory.mem_desc = entry.get();
  g_entries[&memory.fid] = std::move(entry);
  g_locked += bytes;
  fi_ops& own = Own::replace(memory.fid.ops);
  own.bind = bind_memory;
  own.control = control_memory;
  own.close = close_memory;
  return 0;
}

// ---- the endpoint ----

struct Descriptors {
  void* of[2] = {};
  Descriptors(const fid_ep* endpoint, const iovec* pieces, void* const* given, std::size_t count,
              std::string_view call) {
    if (given == nullptr || count > std::size(of)) object("{} without descriptors", call);
    for (std::size_t i = 0; i < count; ++i)
      of[i] = checked(endpoint, given[i], pieces[i].iov_base, pieces[i].iov_len, FI_SEND, call);
  }
};

ssize_t sendv(fid_ep* endpoint, const iovec* pieces, void** given, std::size_t count, fi_addr_t to,
              void* context) {
  Descriptors own(endpoint, pieces, given, count, "fi_sendv");
  return Own::real(endpoint->msg).sendv(endpoint, pieces, own.of, count, to, context);
}
ssize_t tsendv(fid_ep* endpoint, const iovec* pieces, void** given, std::size_t count, fi_addr_t to,
               uint64_t tag, void* context) {
  Descriptors own(endpoint, pieces, given, count, "fi_tsendv");
  return Own::real(endpoint->tagged).sendv(endpoint, pieces, own.of, count, to, tag, context);
}
ssize_t tsenddata(fid_ep* endpoint, const void* piece, std::size_t bytes, void* given,
                  uint64_t data, fi_addr_t to, uint64_t tag, void* context) {
  void* const own = checked(endpoint, given, piece, bytes, FI_SEND, "fi_tsenddata");
  return Own::real(endpoint->tagged).senddata(endpoint, piece, bytes, own, data, to, tag, context);
}
ssize_t receive(fid_ep* endpoint, void* into, std::size_t bytes, void* given, fi_addr_t from,
                void* context) {
  void* const own = checked(endpoint, given, into, bytes, FI_RECV, "fi_recv");
  return Own::real(endpoint->msg).recv(endpoint, into, bytes, own, from, context);
}
ssize_t treceive(fid_ep* endpoint, void* into, std::size_t bytes, void* given, fi_addr_t from,
                 uint64_t tag, uint64_t ignored, void* context) {
  void* const own = checked(endpoint, given, into, bytes, FI_RECV, "fi_trecv");
  return Own::real(endpoint->tagged).recv(endpoint, into, bytes, own, from, tag, ignored, context);
}
ssize_t receive_message(fid_ep* endpoint, const fi_msg* message, uint64_t flags) {
  if (message->desc == nullptr || message->iov_count != 1) object("fi_recvmsg without descriptor");
  void* own = checked(endpoint, message->desc[0], message->msg_iov->iov_base,
                      message->msg_iov->iov_len, FI_RECV, "fi_recvmsg");
  fi_msg real = *message;
  real.desc = &own;
  return Own::real(endpoint->msg).recvmsg(endpoint, &real, flags);
}
ssize_t read_peer(fid_ep* endpoint, void* into, std::size_t bytes, void* given, fi_addr_t from,
                  uint64_t address, uint64_t key, void* context) {
  const std::scoped_lock hold(g_lock);
  Entry& entry = entry_of(endpoint, given, into, bytes, FI_READ, "fi_read");
  const ssize_t answer =
      Own::real(endpoint->rma)
          .read(endpoint, into, bytes, entry.real_descriptor, from, address, key, context);
  if (answer != 0) return answer;
  for (const auto& [memory, one] : g_entries)
    if (one.get() == &entry) g_reads[context] = memory;
  ++entry.reads;
  return 0;
}

void note_read_ended(const void* context) {
  const std::scoped_lock hold(g_lock);
  const auto found = g_reads.find(context);
  if (found == g_reads.end()) return;
  --g_entries.at(found->second)->reads;
  g_reads.erase(found);
}

ssize_t read_queue(fid_cq* queue, void* into, std::size_t count) {
  const ssize_t got = Own::real(queue->ops).read(queue, into, count);
  for (ssize_t i = 0; i < got; ++i)
    note_read_ended(static_cast<fi_cq_data_entry*>(into)[i].op_context);
  return got;
}
ssize_t read_error(fid_cq* queue, fi_cq_err_entry* error, uint64_t flags) {
  const ssize_t got = Own::real(queue->ops).readerr(queue, error, flags);
  if (got == 1) note_read_ended(error->op_context);
  return got;
}

int close_endpoint(fid* endpoint) {
  {
    const std::scoped_lock hold(g_lock);
    for (auto one = g_reads.begin(); one != g_reads.end();) {
      Entry& entry = *g_entries.at(one->second);
      if (entry.endpoint != endpoint) {
        ++one;
        continue;
      }
      --entry.reads;
      one = g_reads.erase(one);
    }
  }
  return Own::real(endpoint->ops).close(endpoint);
}

// ---- domain and fabric ----

/// As the real provider said it.
class Real {
 public:
  explicit Real(const fi_info* info) : info_(g_real.dupinfo(info)) {
    info_->domain_attr->mr_mode &= ~kAsked;
  }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  ~Real() { g_real.freeinfo(info_); }
  fi_info* get() const { return info_; }

 private:
  fi_info* const info_;
};

int make_endpoint(fid_domain* domain, fi_info* info, fid_ep** made, void* context) {
  // (Of a provider's own, below its reliable datagrams, nobody else knows.)
  if (info->ep_attr->type != FI_EP_RDM)
    return Own::real(domain->ops).endpoint(domain, info, made, context);
  const Real real(info);
  const int answer = Own::real(domain->ops).endpoint(domain, real.get(), made, context);
  if (answer != 0) return answer;
  fid_ep& endpoint = **made;
  fi_ops_msg& message = Own::replace(endpoint.msg);
  message.sendv = sendv;
  message.recv = receive;
  message.recvmsg = receive_message;
  if (endpoint.tagged != nullptr) {
    fi_ops_tagged& tagged = Own::replace(endpoint.tagged);
    tagged.sendv = tsendv;
    tagged.senddata = tsenddata;
    tagged.recv = treceive;
  }
  if (endpoint.rma != nullptr) Own::replace(endpoint.rma).read = read_peer;
  Own::replace(endpoint.fid.ops).close = close_endpoint;
  return 0;
}

int make_queue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** made, void* context) {
  const int answer = Own::real(domain->ops).cq_open(domain, attributes, made, context);
  if (answer != 0) return answer;
  fi_ops_cq& own = Own::replace((*made)->ops);
  own.read = read_queue;
  own.readerr = read_error;
  return 0;
}

int make_domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void* context) {
  const Real real(info);
  const int answer = Own::real(fabric->ops).domain(fabric, real.get(), made, context);
  if (answer != 0) return answer;
  fi_ops_domain& own = Own::replace((*made)->ops);
  own.cq_open = make_queue;
  own.endpoint = make_endpoint;
  Own::replace((*made)->mr).reg = enter;
  return 0;
}

int make_fabric(fi_fabric_attr* attributes, fid_fabric** made, void* context) {
  const int answer = g_real.fabric(attributes, made, context);
  if (answer == 0) Own::replace((*made)->ops).domain = make_domain;
  return answer;
}

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
            const fi_info* hints, fi_info** info) {
  if (hints != nullptr && (hints->domain_attr->mr_mode & kAsked) != kAsked) return -FI_ENODATA;
  const int answer = g_real.getinfo(version, node, service, flags, hints, info);
  for (fi_info* one = answer == 0 ? *info : nullptr; one != nullptr; one = one->next)
    one->domain_attr->mr_mode |= kAsked;
  return answer;
}

/// Tests that are run with this in the environment have such a provider, all of them.
class Everywhere final : public ::testing::Environment {
 public:
  void SetUp() override {
    if (is_asked_for()) ExactingLibfabric::install();
  }
  void TearDown() override {
    if (is_asked_for()) {
      EXPECT_NE(ExactingLibfabric::looked_at(), 0u);
    }
  }

 private:
  static bool is_asked_for() { return std::getenv("EXACTING_PROVIDER") != nullptr; }
};
const auto* const g_everywhere = ::testing::AddGlobalTestEnvironment(new Everywhere);

}  // namespace

void ExactingLibfabric::install() {
  void* const shared = ::mmap(nullptr, sizeof *g_looked_at, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) object("no memory for a count");
  g_looked_at = new (shared) std::atomic<uint64_t>{0};
  g_real = ofi::libfabric();
  ofi::Libfabric exacting = g_real;
  exacting.getinfo = getinfo;
  exacting.fabric = make_fabric;
  ofi::replace_libfabric(exacting);
}

void ExactingLibfabric::lock_at_most(std::size_t bytes) {
  const std::scoped_lock hold(g_lock);
  g_may_lock = bytes;
}

std::size_t ExactingLibfabric::entries() {
  const std::scoped_lock hold(g_lock);
  return g_entries.size();
}

uint64_t ExactingLibfabric::looked_at() { return g_looked_at->load(); }

}  // namespace weft::fabric::test
