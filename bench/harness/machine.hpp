// What a figure belongs to: commit, compiler, flags, processor, kernel, date, security.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::bench {

/// Adds `commit`, `compiler`, `flags`, `cpu`, `cores`, `kernel`, `date` and `security` to a line.
void describe_machine(nlohmann::ordered_json& line);

/// The processor's name as the system gives it.
std::string cpu_name();

/// How frames between nodes are protected: fabric.security of this process.
std::string security_mode();

/// Runnable processes averaged over the last minute, as the system counts them; -1: unknown.
double load_average();

}  // namespace weft::bench
