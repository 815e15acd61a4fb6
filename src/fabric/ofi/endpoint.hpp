// libfabric's objects: the provider chosen, and one endpoint with what it needs.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// How memory of peers is read (fabric.ofi.remote_reads).
enum class Reads : uint8_t {
  never,
  by_provider,  ///< FI_RMA: their processor may have nothing to do with it
  by_messages,  ///< they are asked, and send it under a tag
};

/// The provider and interface that the configuration names, or the best fit: the loopback interface
/// for jobs of one node, else one that other hosts can reach. It has what fabric.ofi.receive takes;
/// `reads`: and, if there is one, what reading takes. Throws Error(bad_config) with what is wrong
/// with it.
Info choose_provider(bool one_node, bool reads);

/// How the configuration has memory of peers read over what was chosen. Throws Error(bad_config) if
/// that is not for it.
[[nodiscard]] Reads how_to_read(const fi_info& info);

/// Whether the provider's endpoints are TCP's: their addresses can be knocked at (ConnectProbe),
/// and what connects them is sockets of this process. Others have addresses that look alike.
bool is_over_tcp(const fi_info& info) noexcept;

/// True of an address of IP.
bool is_socket_address(std::span<const std::byte> address) noexcept;

/// A reliable datagram endpoint with a domain, a completion queue and an address vector of its own.
///
/// Owner and lifetime: an Engine's. Who may call: the holder of the engine's lock.
/// Calls answer as libfabric does: 0 or a count, or a negative error number.
class Endpoint {
 public:
  /// `least_room`: of receives of many messages; 0: there will be none. Throws Error(no_permission)
  /// with what failed, Error(bad_config) if the provider does not let the least room be set.
  Endpoint(const Info& info, fid_fabric& fabric, std::size_t completions,
           std::size_t least_room = 0, Reads reads = Reads::never);

  [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }
  /// Names a peer's endpoint. Throws Error(protocol) if the provider does not like the address.
  fi_addr_t insert(std::span<const std::byte> address);

  /// Whether the provider must be told of memory before it works on it (FI_MR_LOCAL). It may pin
  /// that: what is resident of it stays so.
  [[nodiscard]] bool registers() const noexcept { return registers_; }
  /// Tells it of memory to send from and receive into, until `close`: the memory outlives that. The
  /// descriptor, to be named with that memory; null: it need not be told. Throws Error(no_memory).
  void* enter(std::span<std::byte> memory);
  /// The same of a peer's memory to read into, for as long as the handle is kept; null: it cannot
  /// be had.
  [[nodiscard]] Fid<fid_mr> enter_for_read(std::span<std::byte> memory) noexcept;
  /// Ends what is under way; nothing but the destructor may follow.
  void close() noexcept;

  static constexpr uint64_t kUntagged = 0;  ///< as a tag: none

  /// `descriptors`: of each piece; null: none is needed.
  [[nodiscard]] ssize_t send(const iovec* pieces, void** descriptors, std::size_t count,
                             fi_addr_t to, uint64_t tag, fi_context2& context) noexcept {
    return tag == kUntagged
               ? ::fi_sendv(endpoint_.get(), pieces, descriptors, count, to, &context)
               : ::fi_tsendv(endpoint_.get(), pieces, descriptors, count, to, tag, &context);
  }
  /// One message under a tag, in one piece. With it goes a number that nobody looks at: plain TCP's
  /// providers then have a header of 32 bytes, not 24, behind which the kernel copies faster.
  [[nodiscard]] ssize_t send_tagged(std::span<const std::byte> piece, void* descriptor,
                                    fi_addr_t to, uint64_t tag, fi_context2& context) noexcept {
    return ::fi_tsenddata(endpoint_.get(), piece.data(), piece.size(), descriptor, 0, to, tag,
                          &context);
  }
  /// Up to `most_injected` bytes, which are free for other use at once; nothing tells when they
  /// went.
  [[nodiscard]] ssize_t inject(std::span<const std::byte> bytes, fi_addr_t to) noexcept {
    return ::fi_inject(endpoint_.get(), bytes.data(), bytes.size(), to);
  }
  [[nodiscard]] std::size_t most_injected() const noexcept { return most_injected_; }
  /// One message that was sent with `tag`.
  [[nodiscard]] ssize_t receive(std::span<std::byte> into, void* descriptor, uint64_t tag,
                                fi_context2& context) noexcept {
    constexpr fi_addr_t kAny = FI_ADDR_UNSPEC;
    fid_ep* const at = endpoint_.get();
    return noted(
        tag == kUntagged
            ? ::fi_recv(at, into.data(), into.size(), descriptor, kAny, &context)
            : ::fi_trecv(at, into.data(), into.size(), descriptor, kAny, tag, 0, &context));
  }
  /// The last error, since this was asked, by which a receive was refused, but for -FI_EAGAIN, or
  /// memory to send from and receive into, positive; or 0.
  [[nodiscard]] int take_refusal() noexcept { return std::exchange(refusal_, 0); }
  /// Messages without a tag, one after the other, until less than the least room is left.
  [[nodiscard]] ssize_t receive_many(std::span<std::byte> into, void* descriptor,
                                     fi_context2& context) noexcept;
  /// Asks for a receive back: unless it is being filled, it ends with an error. 0: it was asked.
  [[nodiscard]] ssize_t cancel(fi_context2& context) noexcept {
    return ::fi_cancel(&endpoint_->fid, &context);
  }
  [[nodiscard]] ssize_t read(std::span<fi_cq_data_entry> into) noexcept {
    return ::fi_cq_read(queue_.get(), into.data(), into.size());
  }
  [[nodiscard]] Reads reads() const noexcept { return reads_; }
  /// Lets peers read `memory`, with a key that nobody guesses, or has it sent from, where that is
  /// how they read and the provider must be told of it; nullptr: it cannot be had now.
  [[nodiscard]] Fid<fid_mr> expose(std::span<const std::byte> memory) noexcept;
  /// The address at which peers find what was exposed.
  [[nodiscard]] uint64_t exposed_address(std::span<const std::byte> memory) const noexcept {
    return by_address_ ? reinterpret_cast<uint64_t>(memory.data()) : 0;
  }
  [[nodiscard]] ssize_t read_remote(std::span<std::byte> into, void* descriptor, fi_addr_t from,
                                    uint64_t address, uint64_t key, fi_context2& context) noexcept {
    return ::fi_read(endpoint_.get(), into.data(), into.size(), descriptor, from, address, key,
                     &context);
  }
  /// Takes the error that `read` announced by -FI_EAVAIL; false if there was none.
  [[nodiscard]] bool read_error(fi_cq_err_entry& error) noexcept;

  /// Readable when there is something to read; -1: the provider has no descriptor.
  [[nodiscard]] int wait_fd() const noexcept { return wait_fd_; }
  /// False: there is something to read, which the descriptor will not tell.
  [[nodiscard]] bool may_sleep() noexcept;

 private:
  void open_queue(std::size_t completions);
  void set_least_room(std::size_t bytes);
  struct Entering {
    Fid<fid_mr> made;
    int answer = 0;
    std::string_view call;  ///< that failed
  };
  Entering enter_for(uint64_t access, std::span<const std::byte> memory) noexcept;
  ssize_t noted(ssize_t answer) noexcept {
    if (answer != 0 && answer != -FI_EAGAIN) [[unlikely]]
      refusal_ = static_cast<int>(-answer);
    return answer;
  }

  fid_fabric& fabric_;
  const std::size_t most_injected_;
  const Reads reads_;
  const bool by_address_, registers_, binds_memory_;
  const uint64_t key_mask_;  ///< of the bits that keys may have
  Fid<fid_domain> domain_;
  std::vector<Fid<fid_mr>> entered_;
  Fid<fid_av> addresses_;
  Fid<fid_wait> set_;  // outlives the queue
  Fid<fid_cq> queue_;
  Fid<fid_ep> endpoint_;  // goes first
  int wait_fd_ = -1;
  int refusal_ = 0;
  std::vector<std::byte> address_;
};

}  // namespace weft::fabric::ofi
