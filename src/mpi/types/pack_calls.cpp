// MPI_Pack, MPI_Unpack and their external forms.
#include <cstring>

#include "mpi/abi/calls.hpp"
#include "mpi/comm.hpp"
#include "mpi/datatype.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/external32.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {
namespace {

/// Null is a buffer only for nothing, and for types that hold addresses (MPI_BOTTOM).
void check_data(const void* buffer, int64_t count, const Datatype& type) {
  require(buffer != nullptr || count == 0 || type.size() == 0 || type.true_lower_bound() != 0,
          MPI_ERR_BUFFER, "no buffer given");
  require(buffer != MPI_IN_PLACE, MPI_ERR_BUFFER, "MPI_IN_PLACE is no buffer here");
}

/// The packed side: `bytes` from `*position` on must lie inside of it.
void check_packed(const void* packed, MPI_Count size, const MPI_Count* position, int64_t bytes) {
  require(position != nullptr, MPI_ERR_ARG, "no position given");
  require(size >= 0, MPI_ERR_ARG, "a negative buffer size");
  require(*position >= 0 && *position <= size, MPI_ERR_ARG,
          "the position lies outside of the packed buffer");
  require(packed != nullptr || bytes == 0, MPI_ERR_BUFFER, "no packed buffer given");
  // Not to be switched off: it keeps what lies behind the buffer.
  if (bytes > size - *position) {
    fail(MPI_ERR_TRUNCATE, "the packed buffer has less room or data left than is needed");
  }
}

int64_t bytes_of_count(MPI_Count count, int64_t each) {
  require(count >= 0, MPI_ERR_COUNT, "a negative count");
  return times(count, each);
}

void check_representation(const char* datarep) {
  require(datarep != nullptr, MPI_ERR_ARG, "no data representation named");
  if (std::strcmp(datarep, "external32") != 0) {
    fail(MPI_ERR_ARG, "the only data representation to pack in is \"external32\"");
  }
}

}  // namespace

namespace calls {

void Pack(const void* inbuf, MPI_Count incount, MPI_Datatype datatype, void* outbuf,
          MPI_Count outsize, MPI_Count* position, MPI_Comm comm) {
  (void)mpi::comm(comm);
  const Datatype& type = mpi::datatype(datatype);
  const int64_t bytes = bytes_of_count(incount, type.size());
  check_data(inbuf, incount, type);
  check_packed(outbuf, outsize, position, bytes);
  if (bytes == 0) return;
  type.pack(inbuf, incount, 0,
            {static_cast<std::byte*>(outbuf) + *position, static_cast<std::size_t>(bytes)});
  *position += bytes;
}

void Unpack(const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf,
            MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm) {
  (void)mpi::comm(comm);
  const Datatype& type = mpi::datatype(datatype);
  const int64_t bytes = bytes_of_count(outcount, type.size());
  check_data(outbuf, outcount, type);
  check_packed(inbuf, insize, position, bytes);
  if (bytes == 0) return;
  type.unpack(outbuf, outcount, 0,
              {static_cast<const std::byte*>(inbuf) + *position, static_cast<std::size_t>(bytes)});
  *position += bytes;
}

void Pack_size(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count* size) {
  (void)mpi::comm(comm);
  const Datatype& type = mpi::datatype(datatype);
  require(size != nullptr, MPI_ERR_ARG, "no place for the size");
  *size = bytes_of_count(incount, type.size());
}

void Pack_external(const char* datarep, const void* inbuf, MPI_Count incount, MPI_Datatype datatype,
                   void* outbuf, MPI_Count outsize, MPI_Count* position) {
  check_representation(datarep);
  const Datatype& type = mpi::datatype(datatype);
  const int64_t bytes = bytes_of_count(incount, external_size(type));
  check_data(inbuf, incount, type);
  check_packed(outbuf, outsize, position, bytes);
  if (bytes == 0) return;
  pack_external(type, inbuf, incount, static_cast<std::byte*>(outbuf) + *position);
  *position += bytes;
}

void Unpack_external(const char* datarep, const void* inbuf, MPI_Count insize, MPI_Count* position,
                     void* outbuf, MPI_Count outcount, MPI_Datatype datatype) {
  check_representation(datarep);
  const Datatype& type = mpi::datatype(datatype);
  const int64_t bytes = bytes_of_count(outcount, external_size(type));
  check_data(outbuf, outcount, type);
  check_packed(inbuf, insize, position, bytes);
  if (bytes == 0) return;
  unpack_external(type, outbuf, outcount, static_cast<const std::byte*>(inbuf) + *position);
  *position += bytes;
}

void Pack_external_size(const char* datarep, MPI_Count incount, MPI_Datatype datatype,
                        MPI_Count* size) {
  check_representation(datarep);
  const Datatype& type = mpi::datatype(datatype);
  require(size != nullptr, MPI_ERR_ARG, "no place for the size");
  *size = bytes_of_count(incount, external_size(type));
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
