// Who is inside which section: a line for each thread, zero pages until used.
#include "weft/base/favour.hpp"

namespace weft::base {

constinit std::array<Favour::Marks, kThreadSlots> Favour::marks{};

}  // namespace weft::base
