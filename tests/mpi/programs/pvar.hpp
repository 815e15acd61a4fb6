// Reading a performance variable of MPI_T.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "check.hpp"

inline MPI_T_pvar_session session;

/// What a variable shows from now on; levels and high-water marks show what is.
class Counter {
 public:
  explicit Counter(const std::string& name, MPI_Comm comm = MPI_COMM_NULL) : comm_(comm) {
    int index = -1;
    bool found = false;
    for (const int kind : {MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_TIMER, MPI_T_PVAR_CLASS_LEVEL,
                           MPI_T_PVAR_CLASS_HIGHWATERMARK}) {
      if (MPI_T_pvar_get_index(name.c_str(), kind, &index) != MPI_SUCCESS) continue;
      found = true;
      counts_ = kind == MPI_T_PVAR_CLASS_COUNTER || kind == MPI_T_PVAR_CLASS_TIMER;
      break;
    }
    if (!found) std::printf("no variable %s\n", name.c_str());
    WEFT_CHECK(found);
    int bind = -1;
    MPI_T_pvar_get_info(index, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                        nullptr, &bind, nullptr, nullptr, nullptr);
    WEFT_CHECK((bind == MPI_T_BIND_MPI_COMM) == (comm != MPI_COMM_NULL));
    int number = 0;
    WEFT_CHECK(MPI_T_pvar_handle_alloc(session, index, comm == MPI_COMM_NULL ? nullptr : &comm_,
                                       &handle_, &number) == MPI_SUCCESS);
    if (counts_) WEFT_CHECK(MPI_T_pvar_start(session, handle_) == MPI_SUCCESS);
  }
  [[nodiscard]] uint64_t value() const {
    unsigned long long value = 0;
    WEFT_CHECK(MPI_T_pvar_read(session, handle_, &value) == MPI_SUCCESS);
    return value;
  }

 private:
  MPI_Comm comm_;
  MPI_T_pvar_handle handle_ = MPI_T_PVAR_HANDLE_NULL;
  bool counts_ = false;
};
