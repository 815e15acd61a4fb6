// Everything of weft that a program needs for messages.
#pragma once

#include "weft/base/error.hpp"
#include "weft/base/types.hpp"
#include "weft/comm/collectives.hpp"
#include "weft/comm/completion.hpp"
#include "weft/comm/endpoint.hpp"
#include "weft/comm/message.hpp"
#include "weft/comm/runtime.hpp"
