# caisson_freestanding(NAME source…): a static program on musl, without libstdc++. It does not link caisson_flags: its
# compiler flags, headers and C library are its own, whatever sanitizer or build type the rest of the tree has.
set(musl_arch ${CMAKE_SYSTEM_PROCESSOR}-linux-musl)
set(CAISSON_MUSL_INCLUDE /usr/include/${musl_arch} CACHE PATH "musl's headers")
set(CAISSON_MUSL_LIB /usr/lib/${musl_arch} CACHE PATH "musl's libc.a and start files")
if(NOT EXISTS ${CAISSON_MUSL_LIB}/rcrt1.o)
  message(FATAL_ERROR "caisson-init needs musl (Debian: musl-dev): no rcrt1.o in ${CAISSON_MUSL_LIB}")
endif()
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-resource-dir
                OUTPUT_VARIABLE clang_resources OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -rtlib=compiler-rt -print-libgcc-file-name
                OUTPUT_VARIABLE clang_builtins OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

function(caisson_freestanding name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_STANDARD 20 POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE
    "SHELL:-iquote ${PROJECT_SOURCE_DIR}/src"  # quoted includes only: the room sys must not hide <sys/socket.h>
    -nostdinc -nostdinc++ "SHELL:-isystem ${CAISSON_MUSL_INCLUDE}" "SHELL:-isystem ${clang_resources}/include"
    # Kernel headers only:
    "SHELL:-idirafter /usr/include" "SHELL:-idirafter /usr/include/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu"
    -O2 -g0 -fPIE -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-asynchronous-unwind-tables
    -ffunction-sections -fdata-sections -fstack-protector-strong -D_GNU_SOURCE -U_FORTIFY_SOURCE
    -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wno-unused-command-line-argument)
  if(CAISSON_WERROR)
    target_compile_options(${name} PRIVATE -Werror)
  endif()
  target_link_options(${name} PRIVATE
    -nostdlib -static-pie -fuse-ld=lld -Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack,-s
    ${CAISSON_MUSL_LIB}/rcrt1.o ${CAISSON_MUSL_LIB}/crti.o)
  target_link_libraries(${name} PRIVATE
    ${CAISSON_MUSL_LIB}/libc.a ${clang_builtins} ${CAISSON_MUSL_LIB}/crtn.o)
endfunction()
