// What a figure belongs to: commit, compiler, flags, processor, kernel, date.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::bench {

/// Adds `commit`, `compiler`, `flags`, `cpu`, `cores`, `kernel` and `date` to a line.
void describe_machine(nlohmann::ordered_json& line);

/// The processor's name as the system gives it.
std::string cpu_name();

/// Runnable processes averaged over the last minute, as the system counts them; -1: unknown.
double load_average();

}  // namespace weft::bench
