// Who is inside which section: a line for each thread, zero pages until used.
#include "weft/base/favour.hpp"

#include "weft/base/backoff.hpp"

namespace weft::base {

constinit std::array<Favour::Marks, kThreadSlots> Favour::marks{};

void Favour::wait_for_all() noexcept {
  heavy_fence();  // pairs with join's light_fence
  // A thread that takes its first slot after this sees the announcement.
  const unsigned used = thread_slots_used();
  for (unsigned slot = 0; slot < used; ++slot) {
    const Mark mark = &marks[slot].of_level[static_cast<unsigned>(level_)];
    // acquire: pairs with leave; what was done inside is seen.
    for (Backoff backoff; mark->load(std::memory_order_acquire) == as_joined();) backoff.pause();
  }
}

}  // namespace weft::base
