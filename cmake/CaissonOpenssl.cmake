# OpenSSL's archives where there are any: the programs are linked statically, and one that asks for nothing of them
# carries nothing of them.
find_path(CAISSON_OPENSSL_INCLUDE openssl/ssl.h REQUIRED)
find_library(CAISSON_CRYPTO_ARCHIVE NAMES libcrypto.a crypto REQUIRED)
find_library(CAISSON_SSL_ARCHIVE NAMES libssl.a ssl REQUIRED)

add_library(caisson_crypto UNKNOWN IMPORTED GLOBAL)
set_target_properties(caisson_crypto PROPERTIES
  IMPORTED_LOCATION ${CAISSON_CRYPTO_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES ${CAISSON_OPENSSL_INCLUDE}
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")

add_library(caisson_ssl UNKNOWN IMPORTED GLOBAL)
set_target_properties(caisson_ssl PROPERTIES
  IMPORTED_LOCATION ${CAISSON_SSL_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES ${CAISSON_OPENSSL_INCLUDE}
  INTERFACE_LINK_LIBRARIES caisson_crypto)
