# A second build of the same file costs nothing where ccache is installed.
find_program(CAISSON_CCACHE ccache)
if(CAISSON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # With precompiled headers it must not mind when these were made; what is in them it compares all the same.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${CAISSON_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# One set of flags for all rooms, as an interface target.
add_library(caisson_flags INTERFACE)
target_compile_options(caisson_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wformat=2
  -Wno-gnu-statement-expression  # TRY is one
  -fstack-protector-strong -fstack-clash-protection
  -ffunction-sections -fdata-sections)  # so that --gc-sections and start_order.txt have something to choose from
if(CAISSON_WERROR)
  target_compile_options(caisson_flags INTERFACE -Werror)
endif()
# -iquote and not -I: our room src/sys must not stand before the system's <sys/…> headers.
target_compile_options(caisson_flags INTERFACE "SHELL:-iquote ${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(caisson_flags INTERFACE _GLIBCXX_ASSERTIONS CAISSON_VERSION="${PROJECT_VERSION}")

if(CAISSON_SANITIZE STREQUAL "address")
  target_compile_options(caisson_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(caisson_flags INTERFACE -fsanitize=address,undefined)
elseif(CAISSON_SANITIZE STREQUAL "thread")
  target_compile_options(caisson_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(caisson_flags INTERFACE -fsanitize=thread)
elseif(CAISSON_SANITIZE)
  message(FATAL_ERROR "CAISSON_SANITIZE is '${CAISSON_SANITIZE}': want 'address', 'thread' or nothing")
else()
  # What we do is system calls: less inlining than usual is less code to compile and to fault in, and costs no time
  # that can be measured.
  target_compile_options(caisson_flags INTERFACE "SHELL:-mllvm -inline-threshold=100")
  # Tests are compiled without optimisation, in half the time; what they test is as it is shipped.
  set(plain $<BOOL:$<TARGET_PROPERTY:CAISSON_PLAIN>>)
  target_compile_options(caisson_flags INTERFACE
    $<$<NOT:$<OR:$<CONFIG:Debug>,${plain}>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>
    $<${plain}:-O0>)
endif()
if(CAISSON_FUZZ)
  # The sanitizer's runtime holds the empty coverage hooks that every other program of the build then needs.
  if(NOT CAISSON_SANITIZE STREQUAL "address")
    message(FATAL_ERROR "CAISSON_FUZZ needs CAISSON_SANITIZE=address")
  endif()
  target_compile_options(caisson_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_link_options(caisson_flags INTERFACE -fuse-ld=lld -Wl,-z,relro,-z,now)
