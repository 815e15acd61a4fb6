// A suspended flow of execution, as the place on its own stack where what it will need is saved;
// and the switch from one to another.
//
// On x86-64 the switch is ours (context.cpp); elsewhere, and where the build is told so
// (WEFT_BOOST_SWITCH), it is Boost.Context's.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__ELF__) && !defined(__ILP32__) && !defined(WEFT_BOOST_SWITCH)
#define WEFT_OWN_SWITCH 1
#else
#define WEFT_OWN_SWITCH 0
#include <boost/context/detail/fcontext.hpp>
#endif

namespace weft::task {

/// Where a suspended flow goes on.
using Context = void*;

/// What a switch brings to where it leads.
struct Arrival {
  Context left;  ///< of who switched
  void* data;    ///< what he gave along
};

#if WEFT_OWN_SWITCH

// What lies at a context, in bytes from it: the control words of both floating point units, five
// registers, and these.
inline constexpr std::size_t kSavedFramePointer = 0x30;
inline constexpr std::size_t kReturnAddress = 0x38;
inline constexpr std::size_t kSavedBytes = 0x40;

/// Suspends the caller and continues `to`. Returns when somebody switches to what it told him there
/// (Arrival::left), on whatever thread that is.
extern "C" Arrival weft_task_switch(Context to, void* data) noexcept;
inline Arrival switch_context(Context to, void* data) noexcept {
  return weft_task_switch(to, data);
}

/// On an empty stack that ends at `high`: `entry` will be called by whoever switches to it first.
/// It must not return. Its frame is the outermost: nobody called it.
Context make_context(char* high, std::size_t bytes, void (*entry)(Arrival)) noexcept;

#else

#if defined(__aarch64__)
/// How numbers are rounded, which Boost.Context leaves to whoever comes next there.
inline uint64_t floating_control() noexcept {
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
inline void set_floating_control(uint64_t control) noexcept {
  if (floating_control() != control) asm volatile("msr fpcr, %0" : : "r"(control));
}
#else
inline uint64_t floating_control() noexcept { return 0; }
inline void set_floating_control(uint64_t /*control*/) noexcept {}
#endif

inline Arrival switch_context(Context to, void* data) noexcept {
  const uint64_t control = floating_control();
  const auto arrival = boost::context::detail::jump_fcontext(to, data);
  set_floating_control(control);
  return {arrival.fctx, arrival.data};
}
inline Context make_context(char* high, std::size_t bytes, void (*entry)(Arrival)) noexcept {
  using Theirs = boost::context::detail::transfer_t;  // the same two pointers
  static_assert(sizeof(Arrival) == sizeof(Theirs));
  return boost::context::detail::make_fcontext(
      high, bytes, reinterpret_cast<void (*)(Theirs)>(reinterpret_cast<void (*)()>(entry)));
}

#endif

/// First thing in a context that was made: numbers are rounded in the usual way, however whoever
/// came here has them rounded.
inline void begin_context() noexcept {
#if !WEFT_OWN_SWITCH
  set_floating_control(0);
#endif
}

}  // namespace weft::task
