// egress/wire — the bytes and the decision of the only way out, as functions of their arguments.
// What a guest sends us becomes a typed value or a typed refusal: a host (host_name.h), a DNS query
// (dns_query.h), a ClientHello (client_hello.h), a SOCKS request (socks5.h), a proxy request's
// target (proxy_target.h). What the world answers is read as strictly: dns_upstream.h. Then
// address_class.h says whether an address is outside, synthetic.h which name an address inside
// stands for, and decision.h, where to start reading, whether the connection may be.
// Every byte here was written by a guest or by a zone it chose. Never here: sockets, files, clocks,
// threads, logs. Time and addresses are passed in; whoever calls acts on exactly what was judged.
#pragma once

#include "egress/wire/address_class.h"
#include "egress/wire/bytes.h"
#include "egress/wire/client_hello.h"
#include "egress/wire/decision.h"
#include "egress/wire/dns_query.h"
#include "egress/wire/dns_upstream.h"
#include "egress/wire/host_name.h"
#include "egress/wire/ip_address.h"
#include "egress/wire/proxy_target.h"
#include "egress/wire/rules.h"
#include "egress/wire/socks5.h"
#include "egress/wire/synthetic.h"
#include "egress/wire/token_bucket.h"
