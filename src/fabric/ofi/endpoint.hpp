// libfabric's objects: the provider chosen, and one endpoint with what it needs.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/ofi/libfabric.hpp"

namespace weft::fabric::ofi {

struct FidClose {
  template <class Object>
  void operator()(Object* object) const noexcept {
    ::fi_close(&object->fid);
  }
};
template <class Object>
using Fid = std::unique_ptr<Object, FidClose>;

struct InfoFree {
  void operator()(fi_info* info) const noexcept { libfabric().freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFree>;

/// What a provider's error number says; `code` positive or negative.
std::string error_text(int code);

/// The provider and interface that the configuration names, or the best fit: the loopback interface
/// for jobs of one node, else one that other hosts can reach. Throws Error(bad_config) with what is
/// wrong with it.
Info choose_provider(bool one_node);

/// True if an address of this format can be knocked at by TCP (ConnectProbe).
bool is_socket_address(std::span<const std::byte> address) noexcept;

/// A reliable datagram endpoint with a domain, a completion queue and an address vector of its own.
///
/// Owner and lifetime: an Engine's. Who may call: the holder of the engine's lock.
/// Calls answer as libfabric does: 0 or a count, or a negative error number.
class Endpoint {
 public:
  /// Throws Error(no_permission) with what failed.
  Endpoint(const Info& info, fid_fabric& fabric, std::size_t completions);

  [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }
  /// Names a peer's endpoint. Throws Error(protocol) if the provider does not like the address.
  fi_addr_t insert(std::span<const std::byte> address);

  [[nodiscard]] ssize_t send(const iovec* pieces, std::size_t count, fi_addr_t to,
                             fi_context2& context) noexcept {
    return ::fi_sendv(endpoint_.get(), pieces, nullptr, count, to, &context);
  }
  /// Up to `most_injected` bytes, which are free for other use at once; nothing tells when they
  /// went.
  [[nodiscard]] ssize_t inject(std::span<const std::byte> bytes, fi_addr_t to) noexcept {
    return ::fi_inject(endpoint_.get(), bytes.data(), bytes.size(), to);
  }
  [[nodiscard]] std::size_t most_injected() const noexcept { return most_injected_; }
  [[nodiscard]] ssize_t receive(std::span<std::byte> into, fi_context2& context) noexcept {
    return ::fi_recv(endpoint_.get(), into.data(), into.size(), nullptr, FI_ADDR_UNSPEC, &context);
  }
  [[nodiscard]] ssize_t read(std::span<fi_cq_msg_entry> into) noexcept {
    return ::fi_cq_read(queue_.get(), into.data(), into.size());
  }
  /// Takes the error that `read` announced by -FI_EAVAIL; false if there was none.
  [[nodiscard]] bool read_error(fi_cq_err_entry& error) noexcept;

  /// Readable when there is something to read; -1: the provider has no descriptor.
  [[nodiscard]] int wait_fd() const noexcept { return wait_fd_; }
  /// False: there is something to read, which the descriptor will not tell.
  [[nodiscard]] bool may_sleep() noexcept;

 private:
  void open_queue(std::size_t completions);

  fid_fabric& fabric_;
  const std::size_t most_injected_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_wait> set_;  // outlives the queue
  Fid<fid_cq> queue_;
  Fid<fid_ep> endpoint_;  // goes first
  int wait_fd_ = -1;
  std::vector<std::byte> address_;
};

}  // namespace weft::fabric::ofi
