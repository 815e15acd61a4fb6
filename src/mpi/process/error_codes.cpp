// Error classes and codes: MPI's own and those that programs add.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "mpi/abi/calls.hpp"
#include "mpi/abi/error_texts.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/failure.hpp"
#include "mpi/process/error_table.hpp"
#include "mpi/process/last_failure.hpp"

namespace weft::mpi {
namespace {

/// A class (then `of` is itself) or code that the program added.
struct Added {
  int of;
  std::optional<std::string> text;
};

/// Codes that a program added, above MPI_ERR_LASTCODE. A removed one is given again.
struct Codes {
  std::mutex lock;
  std::map<int, Added> added;
};

Codes& codes() {
  static Codes& one = *new Codes;
  return one;
}

const ErrorText* predefined(int code) noexcept {
  const auto* row = std::find_if(std::begin(kErrorTexts), std::end(kErrorTexts),
                                 [code](const ErrorText& text) { return text.code == code; });
  return row == std::end(kErrorTexts) ? nullptr : row;
}

/// Under the lock.
int first_free() {
  int code = MPI_ERR_LASTCODE + 1;
  for (const auto& [taken, about] : codes().added) {
    if (taken != code) break;
    ++code;
  }
  return code;
}

Added& added(int code) {
  const auto found = codes().added.find(code);
  if (found == codes().added.end())
    fail(MPI_ERR_ARG, fmt::format("{} is no error class or code that the program added", code));
  return found->second;
}

/// Under the lock.
void remove(int code, bool is_class) {
  if ((added(code).of == code) != is_class)
    fail(MPI_ERR_ARG, fmt::format("{} is an error {}", code, is_class ? "code" : "class"));
  const bool used = std::any_of(codes().added.begin(), codes().added.end(), [&](const auto& row) {
    return row.first != code && row.second.of == code;
  });
  if (used) fail(MPI_ERR_ARG, fmt::format("error class {} still has codes", code));
  if (added(code).text)
    fail(MPI_ERR_ARG, fmt::format("the string of {} was not removed before it", code));
  codes().added.erase(code);
}

}  // namespace

int error_class(int code) {
  if (predefined(code) != nullptr) return code;
  const std::scoped_lock guard(codes().lock);
  const auto found = codes().added.find(code);
  return found == codes().added.end() ? MPI_ERR_UNKNOWN : found->second.of;
}

std::string error_string(int code) {
  if (const ErrorText* row = predefined(code)) return row->text;
  const std::scoped_lock guard(codes().lock);
  const auto found = codes().added.find(code);
  return found == codes().added.end() ? fmt::format("{} is not an error code", code)
                                      : found->second.text.value_or(std::string());
}

std::string error_name(int error_class) {
  const ErrorText* row = predefined(error_class);
  return row != nullptr ? std::string(row->name) : fmt::format("class {}", error_class);
}

int last_used_code() noexcept {
  const std::scoped_lock guard(codes().lock);
  return codes().added.empty() ? MPI_ERR_LASTCODE : codes().added.rbegin()->first;
}

namespace calls {

void Error_class(int errorcode, int* errorclass) {
  need(errorclass);
  const int found = error_class(errorcode);
  if (found == MPI_ERR_UNKNOWN && errorcode != MPI_ERR_UNKNOWN)
    fail(MPI_ERR_ARG, fmt::format("{} is not an error code", errorcode));
  *errorclass = found;
}

void Error_string(int errorcode, char* string, int* resultlen) {
  need(string);
  need(resultlen);
  int unused;
  Error_class(errorcode, &unused);
  const ErrorText* row = predefined(errorcode);
  std::string text = error_string(errorcode);
  if (row != nullptr) {  // a program's own codes have its own text, to the letter
    text = fmt::format("{}: {}", row->name, text);
    if (const std::string last = last_failure(errorcode); !last.empty()) text += ": " + last;
  }
  const std::size_t kept = std::min<std::size_t>(text.size(), MPI_MAX_ERROR_STRING - 1);
  std::memcpy(string, text.data(), kept);
  string[kept] = '\0';
  *resultlen = static_cast<int>(kept);
}

void Add_error_class(int* errorclass) {
  need(errorclass);
  const std::scoped_lock guard(codes().lock);
  *errorclass = first_free();
  codes().added.emplace(*errorclass, Added{*errorclass, {}});
}

void Add_error_code(int errorclass, int* errorcode) {
  need(errorcode);
  const std::scoped_lock guard(codes().lock);
  if (predefined(errorclass) == nullptr && added(errorclass).of != errorclass)
    fail(MPI_ERR_ARG, fmt::format("{} is an error code, not a class", errorclass));
  *errorcode = first_free();
  codes().added.emplace(*errorcode, Added{errorclass, {}});
}

void Add_error_string(int errorcode, const char* string) {
  need(string);
  const std::size_t length = strnlen(string, MPI_MAX_ERROR_STRING);
  if (length >= MPI_MAX_ERROR_STRING)
    fail(MPI_ERR_ARG, "the string is longer than MPI_MAX_ERROR_STRING");
  const std::scoped_lock guard(codes().lock);
  added(errorcode).text.emplace(string, length);
}

void Remove_error_class(int errorclass) {
  const std::scoped_lock guard(codes().lock);
  remove(errorclass, true);
}

void Remove_error_code(int errorcode) {
  const std::scoped_lock guard(codes().lock);
  remove(errorcode, false);
}

void Remove_error_string(int errorcode) {
  const std::scoped_lock guard(codes().lock);
  if (!added(errorcode).text) fail(MPI_ERR_ARG, fmt::format("{} has no string", errorcode));
  added(errorcode).text.reset();
}

}  // namespace calls
}  // namespace weft::mpi
