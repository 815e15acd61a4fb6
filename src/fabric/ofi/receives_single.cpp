// Receives that each take one message, however large: what every provider can do.
#include <algorithm>

#include "fabric/ofi/receive_pool.hpp"
#include "fabric/ofi/receive_slots.hpp"

namespace weft::fabric::ofi {

namespace {

class SingleReceives final : public ReceivePool {
 public:
  SingleReceives(Endpoint& endpoint, const ReceiveSetup& setup)
      : receives_(std::min(setup.receives, setup.most_posted)),
        slots_(endpoint, setup.largest(), receives_, Endpoint::kUntagged) {}

  void start() override {
    slots_.start();
    slots_.want(receives_);
  }
  void post_waiting() noexcept override { slots_.post_waiting(); }
  [[nodiscard]] bool has_waiting() const noexcept override { return slots_.has_waiting(); }

  [[nodiscard]] std::span<const std::byte> landed(const fi_cq_data_entry& entry) noexcept override {
    return slots_.landed(slot_of(entry.op_context), entry.len);
  }
  void finish(const fi_cq_data_entry& entry) noexcept override {
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
  ReceiveSlots slots_;
};

}  // namespace

std::unique_ptr<ReceivePool> make_single_receives(Endpoint& endpoint, const ReceiveSetup& setup) {
  return std::make_unique<SingleReceives>(endpoint, setup);
}

}  // namespace weft::fabric::ofi
