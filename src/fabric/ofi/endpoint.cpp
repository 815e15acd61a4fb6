#include "fabric/ofi/endpoint.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "fabric/ofi/limits.hpp"
#include "fabric/ofi/receive_pool.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr uint32_t kInterface = FI_VERSION(1, 15);  ///< of libfabric

void check(ssize_t answer, std::string_view call) {
  if (answer < 0)
    throw Error(
        Errc::no_permission,
        fmt::format("ofi: {}: {}{}", call, error_text(static_cast<int>(answer)), files_remark()));
}

/// One like it; null: an empty one.
Info copy_of(const fi_info* info) {
  Info copy(libfabric().dupinfo(info));
  if (!copy) throw Error(Errc::no_memory, "ofi: fi_dupinfo: " + error_text(FI_ENOMEM));
  return copy;
}

/// What a provider may ask of memory: how it is named to be read by peers; to be told of all that
/// it works on, ours as well; and that this is bound to the endpoint.
constexpr int kMemoryModes =
    FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ENDPOINT;

/// What every provider must have: reliable datagrams in each sender's order; and `more`.
Info wishes(uint64_t more = 0) {
  Info hints = copy_of(nullptr);
  hints->caps = FI_MSG | more;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->mr_mode = kMemoryModes;
  return hints;
}

void name_provider(fi_info& hints, const std::string& provider) {
  if (!provider.empty()) hints.fabric_attr->prov_name = ::strdup(provider.c_str());
}

int ask(const Info& hints, Info& found) {
  fi_info* list = nullptr;
  const int answer = libfabric().getinfo(kInterface, nullptr, nullptr, 0, hints.get(), &list);
  found.reset(answer == 0 ? list : nullptr);
  return answer;
}

// Deprecated by libfabric 2, which still has them; see may_sleep.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
int open_wait_set(fid_fabric& fabric, fi_wait_attr& attributes, fid_wait*& set) noexcept {
  return ::fi_wait_open(&fabric, &attributes, &set);
}
/// Whether there is something to do.
bool look_at(fid_wait& set) noexcept { return ::fi_wait(&set, 0) == 0; }
#pragma GCC diagnostic pop

std::string_view text_or_nothing(const char* text) { return text == nullptr ? "" : text; }
std::string_view provider_of(const fi_info& info) {
  return text_or_nothing(info.fabric_attr->prov_name);
}
std::string_view interface_of(const fi_info& info) {
  return text_or_nothing(info.domain_attr->name);
}

/// Where an interface's address reaches.
enum class Reach : uint8_t { four, network, six, this_host, this_link };

Reach reach_of(const fi_info& info) {
  if (info.src_addr == nullptr || info.src_addrlen < sizeof(sockaddr)) return Reach::network;
  sockaddr_storage address{};
  std::memcpy(&address, info.src_addr, std::min(sizeof address, info.src_addrlen));
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(four.sin_addr.s_addr) >> 24 == 127 ? Reach::this_host : Reach::four;
  }
  if (address.ss_family != AF_INET6) return Reach::network;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_LOOPBACK(&six.sin6_addr)) return Reach::this_host;
  return IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) ? Reach::this_link : Reach::six;
}

/// How well it serves a job of one node or of several: the lower, the better; -1: not at all.
int order_of(const fi_info& info, bool one_node) {
  switch (reach_of(info)) {
    case Reach::network:
    case Reach::four:
      return 1;
    case Reach::six:
      return 2;
    case Reach::this_host:
      return one_node ? 0 : -1;
    case Reach::this_link:  // another host needs to know on which of its links
      break;
  }
  return -1;
}

/// libfabric has reliable datagrams over TCP twice. Those of a provider of its own ("net" in
/// version 1.17, "tcp" since) cost half of what they do in a layer above connections: of the same
/// interface and kind of address, that one.
const fi_info* without_layers(const fi_info* chosen, const fi_info* list) {
  if (provider_of(*chosen) != "tcp;ofi_rxm") return chosen;
  for (const fi_info* one = list; one != nullptr; one = one->next)
    if ((provider_of(*one) == "net" || provider_of(*one) == "tcp") &&
        interface_of(*one) == interface_of(*chosen) && one->addr_format == chosen->addr_format)
      return one;
  return chosen;
}

/// libfabric's own shared memory, of which nobody on another node has anything.
bool is_memory(const fi_info& info) {
  return provider_of(info) == "shm" || provider_of(info) == "sm2";
}

/// Of `list`, what serves best; nullptr: nothing does.
const fi_info* best_of(const fi_info* list, const std::string& provider,
                       const std::string& interface, bool one_node) {
  const fi_info* best = nullptr;
  int best_order = 0;
  for (const fi_info* one = list; one != nullptr; one = one->next) {
    if (!interface.empty() && interface_of(*one) != interface) continue;
    if (is_memory(*one) && (provider.empty() || !one_node)) continue;
    const int order = order_of(*one, one_node);
    // libfabric's order, where ours makes no difference.
    if (order >= 0 && (best == nullptr || order < best_order)) {
      best = one;
      best_order = order;
    }
  }
  return best;
}

/// Names of what `list` has that serves, each once.
template <class Name>
std::string names(const fi_info* list, bool one_node, Name name) {
  std::string text;
  std::set<std::string_view> seen;
  for (; list != nullptr; list = list->next) {
    if (order_of(*list, one_node) < 0 || is_memory(*list)) continue;
    if (!seen.insert(name(*list)).second) continue;
    text += text.empty() ? "" : ", ";
    text += name(*list);
  }
  return text.empty() ? "none" : text;
}

/// Why nothing fits `provider`.
[[noreturn]] void refuse(const std::string& provider, ReceiveStrategy strategy, int answer,
                         bool one_node) {
  if (answer != -FI_ENODATA) check(answer, "fi_getinfo");
  Info fit, any;
  Info plain = wishes();
  name_provider(*plain, provider);
  if (capabilities_for(strategy) != 0 && ask(plain, fit) == 0)
    throw Error(Errc::bad_config,
                fmt::format("fabric.ofi.receive is '{}', which takes {}; that has none of: {}",
                            name_of(strategy),
                            strategy == ReceiveStrategy::multi
                                ? "buffers for several messages (FI_MULTI_RECV)"
                                : "messages with tags (FI_TAGGED)",
                            names(fit.get(), one_node, provider_of)));
  (void)ask(wishes(), fit);
  const std::string those = names(fit.get(), one_node, provider_of);
  const base::Environment only = base::environment("FI_PROVIDER");
  const std::string left_out =
      only.found && !only.value.empty() ? fmt::format(" (FI_PROVIDER={} is set)", only.value) : "";
  if (provider.empty())
    throw Error(Errc::bad_config,
                fmt::format("ofi: no provider of libfabric has reliable datagrams in order: {}{}{}",
                            error_text(answer), left_out, files_remark()));
  Info hints = copy_of(nullptr);
  name_provider(*hints, provider);
  const bool known = ask(hints, any) == 0;
  throw Error(Errc::bad_config,
              fmt::format("fabric.ofi.provider is '{}', {}; those that fit: {}{}{}", provider,
                          known ? "which has no reliable datagrams (FI_EP_RDM) in order by itself"
                                : "which libfabric does not have here",
                          those, left_out, files_remark()));
}

}  // namespace

std::string error_text(int code) { return libfabric().strerror(code < 0 ? -code : code); }

Reads how_to_read(const fi_info& info) {
  const std::string wish = base::config_text("fabric.ofi.remote_reads");
  if (wish == "off") return Reads::never;
  // What such a provider calls a read, it sends as messages itself.
  const bool is_plain_tcp = provider_of(info) == "net" || provider_of(info) == "tcp";
  if (wish == "messages" && !is_plain_tcp)
    throw Error(
        Errc::bad_config,
        fmt::format("fabric.ofi.remote_reads is 'messages', which is for providers of plain "
                    "TCP; '{}' is none",
                    provider_of(info)));
  if (wish == "messages" || (wish == "automatic" && is_plain_tcp))
    return (info.caps & FI_TAGGED) != 0 ? Reads::by_messages : Reads::never;
  return (info.caps & FI_RMA) != 0 ? Reads::by_provider : Reads::never;
}

Info choose_provider(bool one_node, bool reads) {
  const std::string provider = base::config_text("fabric.ofi.provider");
  const std::string interface = base::config_text("fabric.ofi.interface");
  const ReceiveStrategy strategy = configured_receive_strategy();
  const uint64_t capabilities = capabilities_for(strategy);
  Info list;
  const fi_info* best = nullptr;
  for (const uint64_t more : {FI_RMA | FI_TAGGED, FI_RMA, FI_TAGGED}) {
    if (!reads || best != nullptr) break;
    const Info hints = wishes(capabilities | more);
    name_provider(*hints, provider);
    const int answer = ask(hints, list);
    if (answer == 0)
      best = best_of(list.get(), provider, interface, one_node);
    else if (answer != -FI_ENODATA)
      refuse(provider, strategy, answer, one_node);
  }
  if (best == nullptr) {
    const Info hints = wishes(capabilities);
    name_provider(*hints, provider);
    if (const int answer = ask(hints, list); answer != 0)
      refuse(provider, strategy, answer, one_node);
    best = best_of(list.get(), provider, interface, one_node);
  }
  if (best == nullptr && !one_node && !provider.empty() && is_memory(*list))
    throw Error(Errc::bad_config,
                fmt::format("fabric.ofi.provider is '{}', which reaches no other node", provider));
  if (best == nullptr && !interface.empty())
    throw Error(
        Errc::bad_config,
        fmt::format("fabric.ofi.interface is '{}', which has no address that {}; there are: {}{}",
                    interface, one_node ? "serves" : "other hosts can reach",
                    names(list.get(), one_node, interface_of), files_remark()));
  if (best == nullptr)
    throw Error(Errc::bad_config,
                "ofi: no network interface has an address that other hosts can reach (loopback and "
                "link-local ones do not count)" +
                    files_remark());
  best = without_layers(best, list.get());
  check_receive_strategy(strategy, provider_of(*best));
  if (best->tx_attr->iov_limit < 2)
    throw Error(Errc::bad_config,
                fmt::format("ofi: provider '{}' does not send two pieces as one message",
                            provider_of(*best)));
  return copy_of(best);
}

bool is_over_tcp(const fi_info& info) noexcept {
  const std::string_view name = provider_of(info);  // layers follow it
  const std::string_view core = name.substr(0, name.find(';'));
  return core == "tcp" || core == "net" || core == "sockets";
}

bool is_socket_address(std::span<const std::byte> address) noexcept {
  if (address.size() < sizeof(sockaddr)) return false;
  sockaddr head;
  std::memcpy(&head, address.data(), sizeof head);
  return (head.sa_family == AF_INET && address.size() == sizeof(sockaddr_in)) ||
         (head.sa_family == AF_INET6 && address.size() == sizeof(sockaddr_in6));
}

Endpoint::Endpoint(const Info& info, fid_fabric& fabric, std::size_t completions,
                   std::size_t least_room, Reads reads)
    : fabric_(fabric),
      most_injected_(info->tx_attr->inject_size),
      reads_(reads),
      by_address_((info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0),
      registers_((info->domain_attr->mr_mode & FI_MR_LOCAL) != 0),
      binds_memory_((info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0),
      // Those with bit 31, libfabric 1's FI_PROV_SPECIFIC, are layered providers' own.
      key_mask_((info->domain_attr->mr_key_size >= sizeof(uint64_t)
                     ? ~uint64_t{0}
                     : (uint64_t{1} << 8 * info->domain_attr->mr_key_size) - 1) &
                ~(uint64_t{1} << 31)) {
  if ((reads_ != Reads::never || registers_) && ::sodium_init() < 0)
    throw Error(Errc::no_permission, "ofi: libsodium cannot be made ready");
  fid_domain* domain = nullptr;
  check(::fi_domain(&fabric, info.get(), &domain, nullptr), "fi_domain");
  domain_.reset(domain);

  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  check(::fi_av_open(domain, &table, &addresses, nullptr), "fi_av_open");
  addresses_.reset(addresses);

  open_queue(completions);

  fid_ep* endpoint = nullptr;
  check(::fi_endpoint(domain, info.get(), &endpoint, nullptr), "fi_endpoint");
  // One without an address vector cannot be closed: libfabric 1.17 crashes.
  check(::fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind");
  endpoint_.reset(endpoint);
  check(::fi_ep_bind(endpoint, &queue_->fid, FI_SEND | FI_RECV), "fi_ep_bind");
  // What it is when the endpoint is enabled, it stays in libfabric 2's ofi_rxm.
  if (least_room != 0) set_least_room(least_room);
  const int enabled = ::fi_enable(endpoint);
  // Then libfabric 2's ofi_rxm has freed what closing it would free again.
  // (Its providers' versions are 100 times the library's and more; 1.17's are 117.)
  const bool is_second = FI_MAJOR_VERSION > 1 || FI_MAJOR(info->fabric_attr->prov_version) >= 200;
  if (is_second && enabled != 0 && provider_of(*info).ends_with("ofi_rxm"))
    (void)endpoint_.release();
  check(enabled, "fi_enable");

  std::size_t bytes = 256;
  address_.resize(bytes);
  check(::fi_getname(&endpoint->fid, address_.data(), &bytes), "fi_getname");
  address_.resize(bytes);
}

/// Its completion queue, to be waited for by a set of its own, by itself, or not at all.
void Endpoint::open_queue(std::size_t completions) {
  fi_wait_attr waiting{};
  waiting.wait_obj = FI_WAIT_FD;
  fid_wait* set = nullptr;
  if (open_wait_set(fabric_, waiting, set) == 0) set_.reset(set);
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.size = completions;
  attributes.wait_set = set;
  fid_cq* queue = nullptr;
  for (const fi_wait_obj how : {FI_WAIT_SET, FI_WAIT_FD, FI_WAIT_NONE}) {
    if (how == FI_WAIT_SET && !set_) continue;
    attributes.wait_obj = how;
    const int answer = ::fi_cq_open(domain_.get(), &attributes, &queue, nullptr);
    if (how == FI_WAIT_NONE) check(answer, "fi_cq_open");
    if (answer == 0) break;
  }
  queue_.reset(queue);
  if (attributes.wait_obj != FI_WAIT_SET) set_.reset();
  if (attributes.wait_obj != FI_WAIT_NONE)
    check(::fi_control(set_ ? &set_->fid : &queue->fid, FI_GETWAIT, &wait_fd_),
          "fi_control(FI_GETWAIT)");
}

fi_addr_t Endpoint::insert(std::span<const std::byte> address) {
  fi_addr_t name = FI_ADDR_NOTAVAIL;
  const int answer = ::fi_av_insert(addresses_.get(), address.data(), 1, &name, 0, nullptr);
  if (answer != 1)
    throw Error(Errc::protocol, fmt::format("ofi: the provider does not take a peer's address: {}",
                                            error_text(answer < 0 ? answer : FI_EINVAL)));
  return name;
}

Endpoint::Entering Endpoint::enter_for(uint64_t access,
                                       std::span<const std::byte> memory) noexcept {
  uint64_t key = 0;  // where the provider leaves it to us: no two are alike
  ::randombytes_buf(&key, sizeof key);
  key &= key_mask_;
  fid_mr* entry = nullptr;
  Entering now{.made = {}, .call = "fi_mr_reg"};
  now.answer =
      ::fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, key, 0, &entry, nullptr);
  if (now.answer != 0) return now;
  now.made.reset(entry);
  if (!binds_memory_) return now;
  now.call = "fi_mr_bind";
  now.answer = ::fi_mr_bind(entry, &endpoint_->fid, 0);
  if (now.answer == 0) {
    now.call = "fi_mr_enable";
    now.answer = ::fi_mr_enable(entry);
  }
  if (now.answer != 0) now.made.reset();
  return now;
}

Fid<fid_mr> Endpoint::expose(std::span<const std::byte> memory) noexcept {
  return enter_for(reads_ == Reads::by_messages ? FI_SEND : FI_REMOTE_READ, memory).made;
}

void* Endpoint::enter(std::span<std::byte> memory) {
  if (!registers_ || memory.empty()) return nullptr;
  Entering now = enter_for(FI_SEND | FI_RECV, memory);
  if (now.answer != 0) {
    refusal_ = -now.answer;
    throw Error(Errc::no_memory,
                fmt::format("ofi: {} of {} KiB: {}{}", now.call, memory.size() / 1024,
                            error_text(now.answer), locked_memory_remark()));
  }
  entered_.push_back(std::move(now.made));
  return ::fi_mr_desc(entered_.back().get());
}

Fid<fid_mr> Endpoint::enter_for_read(std::span<std::byte> memory) noexcept {
  return enter_for(reads_ == Reads::by_messages ? FI_RECV : FI_READ, memory).made;
}

void Endpoint::close() noexcept {
  if (binds_memory_) entered_.clear();  // what is bound goes first
  endpoint_.reset();
}

ssize_t Endpoint::receive_many(std::span<std::byte> into, void* descriptor,
                               fi_context2& context) noexcept {
  const iovec whole{into.data(), into.size()};
  fi_msg message{};
  message.msg_iov = &whole;
  message.desc = registers_ ? &descriptor : nullptr;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = &context;
  return noted(::fi_recvmsg(endpoint_.get(), &message, FI_MULTI_RECV | FI_COMPLETION));
}

void Endpoint::set_least_room(std::size_t bytes) {
  if (const int answer = ::fi_setopt(&endpoint_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
                                     &bytes, sizeof bytes);
      answer != 0)
    throw Error(Errc::bad_config,
                fmt::format("fabric.ofi.receive is 'multi', for which the provider does not let "
                            "FI_OPT_MIN_MULTI_RECV be {}: {}",
                            bytes, error_text(answer)));
}

bool Endpoint::read_error(fi_cq_err_entry& error) noexcept {
  error = {};
  return ::fi_cq_readerr(queue_.get(), &error, 0) == 1;
}

bool Endpoint::may_sleep() noexcept {
  // In libfabric 1.17's "net", only this takes back what makes the descriptor readable.
  if (set_ && look_at(*set_)) return false;
  fid* waited = &queue_->fid;
  return ::fi_trywait(&fabric_, &waited, 1) == 0;
}

}  // namespace weft::fabric::ofi
