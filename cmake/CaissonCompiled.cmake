# Libraries that come as headers and would otherwise be compiled again in each of our files: a third of a whole build.
find_path(CAISSON_FMT_INCLUDE fmt/format-inl.h REQUIRED)
add_library(caisson_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/compiled/fmt.cc)
target_include_directories(caisson_fmt SYSTEM PUBLIC ${CAISSON_FMT_INCLUDE})

# Who includes Asio and does not link this gets an error from the linker, never a second copy: the definition stands
# among the flags of all rooms.
add_library(caisson_asio STATIC ${PROJECT_SOURCE_DIR}/cmake/compiled/asio.cc)
target_link_libraries(caisson_asio PUBLIC Threads::Threads)
add_library(caisson_asio_ssl STATIC ${PROJECT_SOURCE_DIR}/cmake/compiled/asio_ssl.cc)
target_link_libraries(caisson_asio_ssl PUBLIC caisson_asio caisson_ssl)
target_compile_definitions(caisson_flags INTERFACE BOOST_ASIO_SEPARATE_COMPILATION)

foreach(target caisson_fmt caisson_asio caisson_asio_ssl)
  target_link_libraries(${target} PRIVATE caisson_flags)
  target_compile_options(${target} PRIVATE -w)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endforeach()
