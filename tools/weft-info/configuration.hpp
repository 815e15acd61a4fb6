// The configuration of every room, as three kinds of reader want it.
#pragma once

#include <string>

#include "report.hpp"

namespace weft::info {

/// Registers every room's table, so that all keys are known. Throws Error(bad_config).
void register_all_tables();

/// The keys that somebody set, each with its origin, and where the others are to be seen.
Section about_configuration();
/// Key, value and origin, with range and help below.
std::string config_as_text();
/// docs/configuration.md, from the tables alone: no value of this process is in it.
std::string config_as_markdown();
/// An array of objects, one a key.
std::string config_as_json();

}  // namespace weft::info
