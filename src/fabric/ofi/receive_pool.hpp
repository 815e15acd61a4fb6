// What an engine has posted to receive into, by one of several strategies (fabric.ofi.receive).
//
// Purpose: where messages of the provider land, how many of them may before the engine posts anew,
// and what that takes of memory.
// Owner and lifetime: an Engine's; made before its endpoint, which writes into it, and ends after.
// Who may call: the holder of the engine's lock.
// Progress: no call waits. What the provider does not take is posted at the next `post_waiting`.
// Cost: for each message two virtual calls, and what the strategy does anyway.
// Sources: 001 §6.2.2 (receives posted beforehand, by size); docs/design/ofi.md.
//
// Invariants
//  1. Memory that the provider may write to is neither read, but for a message that it has
//     completed, nor posted again nor given back before the provider lets go of it.
//  2. Some receive of every size is posted, or waits to be: no message waits for another's size.
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/size_classes.hpp"

namespace weft::fabric::ofi {

enum class ReceiveStrategy : uint8_t {
  single,  ///< receives that each take one message, however large
  multi,   ///< a few large buffers, in which messages land one after the other (FI_MULTI_RECV)
  sized,   ///< receives of several sizes, as many of each as arrivals suggest
};

/// The strategy that the configuration names.
[[nodiscard]] ReceiveStrategy configured_receive_strategy();
[[nodiscard]] std::string_view name_of(ReceiveStrategy strategy) noexcept;
/// What a provider must be able to do for it, besides messages: FI_MULTI_RECV, FI_TAGGED.
[[nodiscard]] uint64_t capabilities_for(ReceiveStrategy strategy) noexcept;
/// Throws Error(bad_config) where `provider` has what the strategy takes, but not as it takes it.
void check_receive_strategy(ReceiveStrategy strategy, std::string_view provider);

struct ReceiveSetup {
  ReceiveStrategy strategy = ReceiveStrategy::single;
  uint32_t receives = 64;     ///< most of one size (single, sized)
  uint64_t memory = 1 << 20;  ///< of all that is posted (multi, sized)
  uint32_t most_posted = 0;   ///< what the provider takes at once
  SizeClasses classes{0};     ///< one but for sized; the last is the largest message
  uint32_t at_first = 0;      ///< of the receives (single), until more come at once; 0: all
  [[nodiscard]] uint32_t largest() const noexcept { return classes.bytes_of(classes.count() - 1); }
};

class ReceivePool {
 public:
  virtual ~ReceivePool() = default;

  /// What the endpoint is to be made with.
  [[nodiscard]] virtual std::size_t least_room() const noexcept { return 0; }
  /// Posts all there is, when the endpoint is ready.
  virtual void start() = 0;
  /// Posts what the provider did not take. At each step: cheap if there is nothing.
  virtual void post_waiting() noexcept = 0;
  [[nodiscard]] virtual bool has_waiting() const noexcept = 0;

  /// The message of a completion that has FI_RECV, until `finish` of the same. No data, not even
  /// empty: it is lost, and will be sent again.
  [[nodiscard]] virtual std::span<const std::byte> landed(
      const fi_cq_data_entry& entry) noexcept = 0;
  /// After the message, if any, was taken: posts again. For completions with FI_RECV or
  /// FI_MULTI_RECV.
  virtual void finish(const fi_cq_data_entry& entry) noexcept = 0;
  /// A receive that ended with an error is posted again. False: it is none of these.
  [[nodiscard]] virtual bool fail(const fi_cq_err_entry& error) noexcept = 0;
};

/// A pool for `endpoint`, which may be made after it, before `start`. Throws Error(no_memory).
std::unique_ptr<ReceivePool> make_receive_pool(Endpoint& endpoint, const ReceiveSetup& setup);

// Each in the source of its name.
std::unique_ptr<ReceivePool> make_single_receives(Endpoint& endpoint, const ReceiveSetup& setup);
std::unique_ptr<ReceivePool> make_multi_receives(Endpoint& endpoint, const ReceiveSetup& setup);
std::unique_ptr<ReceivePool> make_sized_receives(Endpoint& endpoint, const ReceiveSetup& setup);

}  // namespace weft::fabric::ofi
