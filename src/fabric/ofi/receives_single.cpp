// Receives that each take one message, however large: what every provider can do.
#include <algorithm>
#include <utility>

#include "fabric/ofi/receive_pool.hpp"
#include "fabric/ofi/receive_slots.hpp"

namespace weft::fabric::ofi {

namespace {

class SingleReceives final : public ReceivePool {
 public:
  SingleReceives(Endpoint& endpoint, const ReceiveSetup& setup)
      : receives_(std::min(setup.receives, setup.most_posted)),
        few_(setup.at_first == 0 ? receives_ : std::min(setup.at_first, receives_)),
        slots_(endpoint, setup.largest(), receives_, Endpoint::kUntagged) {}

  void start() override {
    slots_.start();
    slots_.want(few_);
  }
  /// All that were there have been filled since the last look: more would have been.
  void post_waiting() noexcept override {
    if (std::exchange(filled_, 0) >= few_ && few_ < receives_) [[unlikely]]
      slots_.want(few_ = std::min(2 * few_, receives_));
    slots_.post_waiting();
  }
  [[nodiscard]] bool has_waiting() const noexcept override { return slots_.has_waiting(); }

  [[nodiscard]] std::span<const std::byte> landed(const fi_cq_data_entry& entry) noexcept override {
    return slots_.landed(slot_of(entry.op_context), entry.len);
  }
  void finish(const fi_cq_data_entry& entry) noexcept override {
    ++filled_;
    slots_.put_back(slot_of(entry.op_context));
  }
  [[nodiscard]] bool fail(const fi_cq_err_entry& error) noexcept override {
    if (!slots_.owns(error.op_context)) return false;
    slots_.put_back(slot_of(error.op_context));
    return true;
  }

 private:
  static ReceiveSlots::Slot& slot_of(void* context) noexcept {
    return *static_cast<ReceiveSlots::Slot*>(context);
  }

  const uint32_t receives_;
  // They are filled by turns, and few stay in the caches.
  uint32_t few_;
  uint32_t filled_ = 0;
  ReceiveSlots slots_;
};

}  // namespace

std::unique_ptr<ReceivePool> make_single_receives(Endpoint& endpoint, const ReceiveSetup& setup) {
  return std::make_unique<SingleReceives>(endpoint, setup);
}

}  // namespace weft::fabric::ofi
