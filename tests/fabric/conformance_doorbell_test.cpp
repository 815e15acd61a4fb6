#include "fabric/conformance_ranks.hpp"
