// Command lines as other MPI launchers take them, in the form that our parser takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::run {

/// A command line's sections, one for each program: split at words that are just `:`, until a `--`
/// makes the rest one program's own. Without argv[0].
std::vector<std::vector<std::string>> split_programs(int argc, const char* const* argv);

/// Long options with one dash (-np, -host, -env K V …), as far as the program's name, in the form
/// with two: `-env K V` becomes `--env K=V`. Settings of another launcher's own parts (--mca K V)
/// are left out, which `notes` gets to say. Others stay as they are.
std::vector<std::string> with_two_dashes(const std::vector<std::string>& words,
                                         std::vector<std::string>& notes);

/// This host's name; and whether `name` is one of those that it goes by.
std::string this_host();
bool is_this_host(std::string_view name);

}  // namespace weft::run
