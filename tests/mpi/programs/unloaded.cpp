// unloaded LIBRARY: a program that loads the MPI library itself, as a plug-in does, and lets it go
// while a thread that called it lives. What the library has to do when that thread ends is still
// there.
#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace {

void* library;

template <class Function>
Function* find(const char* name, Function* /*its type*/) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define WEFT_FOUND(name) find(#name, static_cast<decltype(&name)>(nullptr))

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || (library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) == nullptr) return 2;
  std::atomic<int> step{0};
  std::atomic<bool> good{true};
  std::thread caller([&] {
    int provided = 0;
    int number = 7;
    int came = 0;
    good = WEFT_FOUND(MPI_Init_thread)(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) ==
               MPI_SUCCESS &&
           WEFT_FOUND(MPI_Sendrecv)(&number, 1, MPI_INT, 0, 3, &came, 1, MPI_INT, 0, 3,
                                    MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           came == 7 && WEFT_FOUND(MPI_Finalize)() == MPI_SUCCESS;
    step = 1;
    step.notify_one();
    step.wait(1);
  });
  step.wait(0);
  if (dlclose(library) != 0) good = false;
  step = 2;
  step.notify_one();
  caller.join();
  return good ? 0 : 1;
}
