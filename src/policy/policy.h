// policy — WHAT is allowed, as values: the capability declaration, its parser, and the questions
// one asks of it. Start at capability.h (the values and their defaults), then capability_parser.h
// (YAML text → a valid declaration). host_name.h is the one function that canonicalises a host,
// lexical_path.h the one that cleans a path; egress.h, filesystem.h, environment.h and
// resource_monitor.h answer questions; describe.h prints; flags.h reads the short forms of the
// command line. Everything here is a function of its arguments: time is passed in. The one
// exception is CapabilityParser::from_file, which reads one bounded regular file. Never here:
// sockets, clocks, processes, or how anything is enforced.
#pragma once

#include "policy/capability.h"
#include "policy/capability_parser.h"
#include "policy/describe.h"
#include "policy/egress.h"
#include "policy/environment.h"
#include "policy/filesystem.h"
#include "policy/flags.h"
#include "policy/host_name.h"
#include "policy/lexical_path.h"
#include "policy/rate_limiter.h"
#include "policy/resource_monitor.h"
