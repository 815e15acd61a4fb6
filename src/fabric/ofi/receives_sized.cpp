// Receives of several sizes. A message carries its size's number as a tag, so that short ones do
// not use up what was posted for large ones, and how many of each are posted follows the arrivals.
#include <memory>
#include <vector>

#include "fabric/ofi/arrival_shares.hpp"
#include "fabric/ofi/receive_pool.hpp"
#include "fabric/ofi/receive_slots.hpp"

namespace weft::fabric::ofi {

namespace {

class SizedReceives final : public ReceivePool {
 public:
  SizedReceives(Endpoint& endpoint, const ReceiveSetup& setup)
      : shares_(setup.classes, setup.memory, setup.receives, setup.most_posted) {
    for (uint32_t i = 0; i < setup.classes.count(); ++i)
      sizes_.push_back(
          std::make_unique<ReceiveSlots>(endpoint, setup.classes.bytes_of(i), setup.receives, i));
  }

  void start() override {
    for (const auto& one : sizes_) one->start();
    want(shares_.equal_shares());
  }
  void post_waiting() noexcept override {
    for (const auto& one : sizes_)
      if (one->has_waiting()) [[unlikely]]
        one->post_waiting();
  }
  [[nodiscard]] bool has_waiting() const noexcept override {
    for (const auto& one : sizes_)
      if (one->has_waiting()) return true;
    return false;
  }

  [[nodiscard]] std::span<const std::byte> landed(const fi_cq_data_entry& entry) noexcept override {
    const Slot& slot = slot_of(entry.op_context);
    return slot.owner->landed(slot, entry.len);
  }
  void finish(const fi_cq_data_entry& entry) noexcept override {
    Slot& slot = slot_of(entry.op_context);
    slot.owner->put_back(slot);
    if (shares_.note(slot.owner->tag())) [[unlikely]]
      want(shares_.shares());
  }
  [[nodiscard]] bool fail(const fi_cq_err_entry& error) noexcept override {
    for (const auto& one : sizes_) {
      if (!one->owns(error.op_context)) continue;
      one->put_back(slot_of(error.op_context));
      return true;
    }
    return false;
  }

 private:
  using Slot = ReceiveSlots::Slot;
  static Slot& slot_of(void* context) noexcept { return *static_cast<Slot*>(context); }

  void want(const ArrivalShares::Counts& counts) noexcept {
    for (std::size_t i = 0; i < sizes_.size(); ++i) sizes_[i]->want(counts[i]);
  }

  ArrivalShares shares_;
  std::vector<std::unique_ptr<ReceiveSlots>> sizes_;  // by class
};

}  // namespace

std::unique_ptr<ReceivePool> make_sized_receives(Endpoint& endpoint, const ReceiveSetup& setup) {
  return std::make_unique<SizedReceives>(endpoint, setup);
}

}  // namespace weft::fabric::ofi
