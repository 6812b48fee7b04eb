// egress/credentials — what proves who is calling, and what a guest must never hold. Start at
// secret.h: bytes in locked memory that do not print. secret_box.h keeps them at rest, encrypted;
// redactor.h takes them out of texts that are on their way to a guest or a log; jwt.h makes and
// judges a sandbox's proxy token; authority.h is the certificate authority of one sandbox, with
// which we end its TLS where a rule says so.
//
// Never here: sockets, rules that decide, which sandboxes exist. A secret is never in an error, and
// leaves a Secret only where it is put into a header, a key or a cipher.
#pragma once

#include "egress/credentials/authority.h"
#include "egress/credentials/jwt.h"
#include "egress/credentials/redactor.h"
#include "egress/credentials/secret.h"
#include "egress/credentials/secret_box.h"
#include "egress/credentials/secret_file.h"
