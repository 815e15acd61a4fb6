// How weftrun and a daemon show each other that they know the job's key, without saying it.
#pragma once

#include <string>
#include <string_view>

namespace weft::run {

/// 16 bytes that show knowledge of `key` (32 hexadecimal digits) to whoever made `theirs`. `role`
/// differs between the two ends, so that none can be shown its own proof; `member` is who answers
/// or is answered.
std::string proof_of(std::string_view key, std::string_view role, int member, std::string_view own,
                     std::string_view theirs);

/// 16 bytes that nobody can guess.
std::string fresh_nonce();

/// Compares in a time that does not tell how much of it was equal.
bool same_bytes(std::string_view a, std::string_view b) noexcept;

}  // namespace weft::run
