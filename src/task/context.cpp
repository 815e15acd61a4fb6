// The switch on x86-64. docs/design/tasks.md, "The switch", says why it is not Boost.Context's.
#include "task/context.hpp"

#if WEFT_OWN_SWITCH

#include <cstdint>
#include <cstring>

// A call saves what its callee may change, so a switch, which is one, saves the rest: six registers
// and the control words of the floating point units (System V ABI for AMD64, 3.2.1). It ends in a
// `ret`, like the call that it seems to be: the processor foretells where a `ret` leads from the
// calls before it, and tasks that wait in the same function foretell it for each other. Control
// words are loaded only where they differ, as loading another one than there is takes longer than
// all the rest. The SSE unit's has in its low six bits what exceptions were raised: those stay
// raised, whoever's they are, so that two of which one has raised more need no load each time.
asm(R"(
  .text
  .p2align 6
  .globl weft_task_switch
  .hidden weft_task_switch
  .type weft_task_switch, @function
weft_task_switch:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  pushq %rbx
  .cfi_def_cfa_offset 24
  .cfi_offset %rbx, -24
  pushq %r12
  .cfi_def_cfa_offset 32
  .cfi_offset %r12, -32
  pushq %r13
  .cfi_def_cfa_offset 40
  .cfi_offset %r13, -40
  pushq %r14
  .cfi_def_cfa_offset 48
  .cfi_offset %r14, -48
  pushq %r15
  .cfi_def_cfa_offset 56
  .cfi_offset %r15, -56
  subq $8, %rsp
  .cfi_def_cfa_offset 64
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, %rax
  movq %rsi, %rdx
  movq %rdi, %rsp
  movl (%rax), %ecx
  andl $0x3f, %ecx
  orl (%rsp), %ecx
  cmpl (%rax), %ecx
  jne 2f
1:
  movzwl 4(%rax), %ecx
  cmpw %cx, 4(%rsp)
  jne 3f
4:
  addq $8, %rsp
  .cfi_remember_state
  .cfi_def_cfa_offset 56
  popq %r15
  .cfi_restore %r15
  .cfi_def_cfa_offset 48
  popq %r14
  .cfi_restore %r14
  .cfi_def_cfa_offset 40
  popq %r13
  .cfi_restore %r13
  .cfi_def_cfa_offset 32
  popq %r12
  .cfi_restore %r12
  .cfi_def_cfa_offset 24
  popq %rbx
  .cfi_restore %rbx
  .cfi_def_cfa_offset 16
  popq %rbp
  .cfi_restore %rbp
  .cfi_def_cfa_offset 8
  ret
  .cfi_restore_state
2:
  movl %ecx, (%rsp)
  ldmxcsr (%rsp)
  jmp 1b
3:
  fldcw 4(%rsp)
  jmp 4b
  .cfi_endproc
  .size weft_task_switch, .-weft_task_switch

  .p2align 4
  .globl weft_task_begin
  .hidden weft_task_begin
  .type weft_task_begin, @function
weft_task_begin:
  .cfi_startproc
  .cfi_undefined %rip
  xorl %ebp, %ebp
  pushq %rbp
  movq %rax, %rdi
  movq %rdx, %rsi
  jmpq *%r12
  .cfi_endproc
  .size weft_task_begin, .-weft_task_begin
)");

/// What a context that nobody has switched to yet returns to: calls what r12 names, with no caller.
extern "C" void weft_task_begin();

namespace weft::task {

Context make_context(char* high, std::size_t /*bytes*/, void (*entry)(Arrival)) noexcept {
  struct Saved {
    uint32_t mxcsr;
    uint16_t x87;
    uint16_t unused;
    uintptr_t r15, r14, r13, r12, rbx, rbp;
    uintptr_t rip;
  };
  static_assert(offsetof(Saved, rbp) == kSavedFramePointer &&
                offsetof(Saved, rip) == kReturnAddress && sizeof(Saved) == kSavedBytes);
  Saved saved{};
  // As the caller has them: a stack's first task begins with the control words of who made the
  // stack.
  asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(saved.mxcsr), "=m"(saved.x87));
  saved.r12 = reinterpret_cast<uintptr_t>(entry);
  saved.rip = reinterpret_cast<uintptr_t>(&weft_task_begin);
  // Aligned to 16 bytes; what weft_task_begin pushes takes the place of its own address, used by
  // then.
  const auto end = reinterpret_cast<uintptr_t>(high) & ~uintptr_t{15};
  char* const context = high - (reinterpret_cast<uintptr_t>(high) - end) - sizeof saved;
  std::memcpy(context, &saved, sizeof saved);
  return context;
}

}  // namespace weft::task

#endif
