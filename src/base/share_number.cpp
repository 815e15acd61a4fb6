// A thread's share number. Not in line: the caller may be on another thread than a moment ago, and
// must not keep the address of its last one's.
#include "weft/base/share_number.hpp"

namespace weft::base {
namespace {

constexpr unsigned kNoShare = ~0U;
constinit thread_local unsigned share = kNoShare;

}  // namespace

unsigned this_share_number() noexcept { return share != kNoShare ? share : this_thread_slot(); }

void set_share_number(unsigned number) noexcept { share = number; }

}  // namespace weft::base
